//! Dead letters for people: find them, try them again, or give them up.
//!
//! Everything is decided in the database, so two operators or two tools may work at once and never
//! hold the same letter.

mod filter;
mod letter;
mod parts;
mod requeue;
mod typed;

pub use crate::event::decode::Undecodable;
pub use crate::handler::DeadLetterNotice;
pub use crate::queue::DeadLetterId;
pub use filter::{DeadLetterFilter, DeadLetterScope};
pub use letter::{
    ClaimedLetters, DeadLetterClaim, DeadLetterMessage, DeadLetterStatus, LettersChanged,
};
pub use requeue::{NotRequeued, REQUEUED_FROM, RequeueRefusal, RequeueReport, Requeued};
pub use typed::{TypedDeadLetter, TypedDeadLetters};

use crate::config::LONGEST_DELAY;
use crate::database::cursor::micros;
use crate::database::dead_letter::{self, Change, Holder, Part};
use crate::database::race::Races;
use crate::database::transaction::begin;
use crate::event::Event;
use crate::handler::reason::bounded_reason;
use parts::Parts;
use sea_orm::{DatabaseConnection, DbErr};
use std::time::Duration;

/// How many letters are listed or claimed unless the filter says otherwise.
const DEFAULT_LIMIT: u32 = 100;
/// How many letters one statement changes or deletes.
const PART: u16 = 1_000;

/// The messages that could not succeed. A running outbox has them in
/// [`Outbox::dead_letters`](crate::Outbox::dead_letters); a tool that runs no outbox calls
/// [`new`](Self::new). Cheap to clone.
///
/// ```
/// use outbox_runtime::{DeadLetterFilter, DeadLetterStatus, DeadLetters};
///
/// # async fn tend(db: sea_orm::DatabaseConnection) -> Result<(), sea_orm::DbErr> {
/// let letters = DeadLetters::new(db).requeue_rate(50);
/// let pending = DeadLetterFilter::new().queue("orders").status(DeadLetterStatus::Pending);
/// for letter in letters.list(&pending.clone().limit(20)).await? {
///     println!("{}: {} of {}: {}", letter.id, letter.event_type, letter.consumer, letter.reason);
/// }
/// // The warehouse is back: all that waited for it go through their queue again.
/// let report = letters.requeue(pending.reason_contains("warehouse")).await?;
/// println!("{} requeued", report.requeued.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeadLetters {
    db: DatabaseConnection,
    rate: Option<u32>,
}

impl DeadLetters {
    /// The dead letters of a database. No outbox needs to run in this process.
    #[must_use]
    pub fn new(db: DatabaseConnection) -> Self {
        Self { db, rate: None }
    }

    /// Makes [`requeue`](Self::requeue) send at most so many letters a second, and at least one.
    /// Without this there is no limit.
    #[must_use]
    pub fn requeue_rate(mut self, letters_per_second: u32) -> Self {
        self.rate = Some(letters_per_second.max(1));
        self
    }

    /// The dead letters of one event, decoded.
    #[must_use]
    pub fn of<E: Event>(&self) -> TypedDeadLetters<E> {
        TypedDeadLetters::new(self.clone())
    }

    /// Letters in the order of their ids, 100 unless the filter has a limit. For the next page use
    /// the same filter [`after`](DeadLetterFilter::after) the last letter. A late page costs no
    /// more than the first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn list(&self, filter: &DeadLetterFilter) -> Result<Vec<DeadLetterMessage>, DbErr> {
        let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
        let after = filter.after.map_or(0, |id| id.get());
        let page = dead_letter::page(&self.db, &filter.conditions(), after, limit).await?;
        DeadLetterMessage::all(page)
    }

    /// How many letters there are. The filter's limit and `after` have no effect.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn count(&self, filter: &DeadLetterFilter) -> Result<u64, DbErr> {
        dead_letter::count(&self.db, &filter.conditions()).await
    }

    /// The letter with this id; `None` if there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn get(&self, id: DeadLetterId) -> Result<Option<DeadLetterMessage>, DbErr> {
        let letters = dead_letter::by_ids(&self.db, &[id.get()]).await?;
        let mut letters = DeadLetterMessage::all(letters)?;
        Ok(letters.pop())
    }

    /// Claims letters that no other claim holds, so that the caller can handle them within `hold`.
    /// It claims 100 unless the scope says otherwise. Letters that another caller is claiming at
    /// this moment are left out, not waited for. End with [`resolve`](Self::resolve) or
    /// [`reject`](Self::reject). After `hold`, by the database's clock, others may claim them.
    ///
    /// # Errors
    /// If the database cannot be reached; then nothing is claimed.
    pub async fn replay(
        &self,
        scope: impl Into<DeadLetterScope>,
        hold: Duration,
    ) -> Result<ClaimedLetters, DbErr> {
        let scope = scope.into();
        let mut races = Races::default();
        loop {
            match self.claim(&scope, hold).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => races.again(error).await?,
            }
        }
    }

    async fn claim(
        &self,
        scope: &DeadLetterScope,
        hold: Duration,
    ) -> Result<ClaimedLetters, DbErr> {
        let claim = DeadLetterClaim::new();
        let part = Part {
            after: scope.filter.after.map_or(0, |id| id.get()),
            upto: i64::MAX,
            limit: match &scope.ids {
                Some(ids) => ids.len(),
                None => scope.filter.limit.unwrap_or(DEFAULT_LIMIT) as usize,
            },
        };
        let change = Change::Claim {
            claim: claim.as_str(),
            hold_us: micros(hold.min(LONGEST_DELAY)),
        };
        let tx = begin(&self.db).await?;
        let ids =
            dead_letter::eligible(&tx, &scope.conditions(), Holder::Nobody, part, true).await?;
        let changed = dead_letter::change(&tx, &ids, Holder::Nobody, &change).await?;
        if changed != ids.len() as u64 {
            // They are locked, so this cannot happen. If it does, claim nothing: a letter of
            // another claim must not be returned.
            return Err(DbErr::RecordNotUpdated);
        }
        let letters = DeadLetterMessage::all(dead_letter::by_ids(&tx, &ids).await?)?;
        tx.commit().await?;
        Ok(ClaimedLetters { claim, letters })
    }

    /// Makes claimed letters resolved. Letters that this claim no longer holds are not changed.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn resolve(
        &self,
        claim: &DeadLetterClaim,
        scope: impl Into<DeadLetterScope>,
    ) -> Result<LettersChanged, DbErr> {
        let holder = Holder::Claim(claim.as_str());
        self.change(scope.into(), holder, Change::Resolve).await
    }

    /// Makes claimed letters pending again after a failed attempt, with one attempt more and a new
    /// reason. Letters that this claim no longer holds are not changed.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn reject(
        &self,
        claim: &DeadLetterClaim,
        scope: impl Into<DeadLetterScope>,
        reason: impl std::fmt::Display,
    ) -> Result<LettersChanged, DbErr> {
        let holder = Holder::Claim(claim.as_str());
        let reason = bounded_reason(&reason.to_string());
        let change = Change::Reject { reason: &reason };
        self.change(scope.into(), holder, change).await
    }

    /// Gives up letters that no claim holds.
    ///
    /// # Errors
    /// If the database cannot be reached. What was discarded before stays so.
    pub async fn discard(
        &self,
        scope: impl Into<DeadLetterScope>,
    ) -> Result<LettersChanged, DbErr> {
        let change = Change::Discard;
        self.change(scope.into(), Holder::Nobody, change).await
    }

    /// Deletes letters that were resolved or discarded at least so long ago, a part at a time.
    /// Returns how many. To have it done in the background, set
    /// [`dead_letter_retention`](crate::OutboxBuilder::dead_letter_retention).
    ///
    /// # Errors
    /// If the database cannot be reached. What was deleted before stays so.
    pub async fn cleanup(&self, older_than: Duration) -> Result<u64, DbErr> {
        let mut deleted = 0;
        loop {
            let part = self.cleanup_part(older_than, PART.into()).await?;
            deleted += part;
            if part < PART.into() {
                return Ok(deleted);
            }
        }
    }

    /// Deletes up to `limit` letters.
    pub(crate) async fn cleanup_part(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64, DbErr> {
        let age = micros(older_than.min(LONGEST_AGE));
        let mut races = Races::default();
        loop {
            match dead_letter::delete_completed(&self.db, age, limit).await {
                Ok(deleted) => return Ok(deleted),
                Err(error) => races.again(error).await?,
            }
        }
    }

    async fn change(
        &self,
        scope: DeadLetterScope,
        holder: Holder<'_>,
        change: Change<'_>,
    ) -> Result<LettersChanged, DbErr> {
        let mut asked = scope.ids.as_ref().map_or(0, Vec::len);
        let by_filter = scope.ids.is_none();
        let mut parts = Parts::of(&self.db, scope, PART.into()).await?;
        let mut changed = 0;
        while let Some((scope, part)) = parts.next() {
            let mut races = Races::default();
            loop {
                match self.change_part(&scope, part, holder, &change).await {
                    Ok((ids, done)) => {
                        changed += done;
                        asked += if by_filter { ids.len() } else { 0 };
                        parts.found(part, &ids);
                        break;
                    }
                    Err(error) => races.again(error).await?,
                }
            }
        }
        Ok(LettersChanged {
            changed,
            unchanged: (asked as u64).saturating_sub(changed),
        })
    }

    async fn change_part(
        &self,
        scope: &DeadLetterScope,
        part: Part,
        holder: Holder<'_>,
        change: &Change<'_>,
    ) -> Result<(Vec<i64>, u64), DbErr> {
        let ids = dead_letter::eligible(&self.db, &scope.conditions(), holder, part, false).await?;
        let changed = match &ids[..] {
            [] => 0,
            ids => dead_letter::change(&self.db, ids, holder, change).await?,
        };
        Ok((ids, changed))
    }
}

/// Every engine can subtract it from its clock.
const LONGEST_AGE: Duration = Duration::from_secs(1_000 * 365 * 24 * 3600);
