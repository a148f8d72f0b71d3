//! Dead letters of one event type, decoded.

use super::DeadLetters;
use super::filter::{DeadLetterFilter, DeadLetterScope};
use super::letter::DeadLetterMessage;
use super::requeue::{Content, RequeueRefusal, RequeueReport};
use crate::event::Event;
use crate::event::decode::{Undecodable, decode};
use crate::queue::DeadLetterId;
use sea_orm::DbErr;
use std::fmt;
use std::marker::PhantomData;

/// The dead letters of one event, made by [`DeadLetters::of`]: those in its queue that have its
/// name or one of its earlier names.
pub struct TypedDeadLetters<E> {
    letters: DeadLetters,
    event: PhantomData<fn() -> E>,
}

/// A dead letter and the event in it.
pub struct TypedDeadLetter<E> {
    /// The letter, with its bytes.
    pub letter: DeadLetterMessage,
    /// The event, or why the bytes cannot be decoded.
    pub event: Result<E, Undecodable>,
}

/// Events may be secrets, so they are not shown.
impl<E> fmt::Debug for TypedDeadLetter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedDeadLetter")
            .field("letter", &self.letter)
            .field("decoded", &self.event.is_ok())
            .finish_non_exhaustive()
    }
}

impl<E: Event> TypedDeadLetters<E> {
    pub(super) fn new(letters: DeadLetters) -> Self {
        Self {
            letters,
            event: PhantomData,
        }
    }

    /// As [`DeadLetters::list`].
    ///
    /// # Errors
    /// If the database cannot be read. A letter that cannot be decoded is no error.
    pub async fn list(&self, filter: &DeadLetterFilter) -> Result<Vec<TypedDeadLetter<E>>, DbErr> {
        let letters = self.letters.list(&typed::<E>(filter.clone())).await?;
        Ok(letters.into_iter().map(open).collect())
    }

    /// As [`DeadLetters::count`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn count(&self, filter: &DeadLetterFilter) -> Result<u64, DbErr> {
        self.letters.count(&typed::<E>(filter.clone())).await
    }

    /// As [`DeadLetters::get`]. `None` also for a letter of another event.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn get(&self, id: DeadLetterId) -> Result<Option<TypedDeadLetter<E>>, DbErr> {
        let mine = |letter: &DeadLetterMessage| {
            letter.queue == E::QUEUE.name() && names::<E>().contains(&&*letter.event_type)
        };
        Ok(self.letters.get(id).await?.filter(mine).map(open))
    }

    /// As [`DeadLetters::requeue`], with the event that `repair` makes from the one in the letter.
    /// The letter keeps its own bytes. A letter that cannot be decoded is refused. `repair` runs
    /// inside a transaction, and runs again if that loses a race.
    ///
    /// # Errors
    /// As for [`DeadLetters::requeue`].
    pub async fn requeue_with(
        &self,
        scope: impl Into<DeadLetterScope>,
        mut repair: impl FnMut(E) -> E + Send,
    ) -> Result<RequeueReport, DbErr> {
        let mut scope = scope.into();
        scope.filter = typed::<E>(scope.filter);
        let mut repaired = |letter: &DeadLetterMessage| {
            let event = decode::<E>(&letter.payload).map_err(RequeueRefusal::Undecodable)?;
            let payload = serde_json::to_vec(&repair(event))
                .map_err(|error| RequeueRefusal::Encode(error.to_string()))?;
            if payload.len() > E::MAX_PAYLOAD {
                return Err(RequeueRefusal::PayloadTooLarge {
                    size: payload.len(),
                    limit: E::MAX_PAYLOAD,
                });
            }
            Ok(Content {
                event_type: E::NAME.into(),
                payload,
            })
        };
        self.letters.requeue_each(scope, &mut repaired).await
    }
}

fn names<E: Event>() -> Vec<&'static str> {
    E::ALIASES.iter().copied().chain([E::NAME]).collect()
}

fn typed<E: Event>(mut filter: DeadLetterFilter) -> DeadLetterFilter {
    filter.typed = Some((E::QUEUE.name().to_owned(), names::<E>()));
    filter
}

fn open<E: Event>(letter: DeadLetterMessage) -> TypedDeadLetter<E> {
    let event = decode(&letter.payload);
    TypedDeadLetter { letter, event }
}
