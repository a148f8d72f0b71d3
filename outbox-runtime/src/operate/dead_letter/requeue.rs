//! Sends dead letters through their queue again, to the consumer that failed and to no other.

use super::DeadLetters;
use super::filter::DeadLetterScope;
use super::letter::DeadLetterMessage;
use super::parts::Parts;
use crate::database::dead_letter::{self, Holder, Part};
use crate::database::enqueue::NewRow;
use crate::database::race::Races;
use crate::database::transaction::begin;
use crate::event::decode::Undecodable;
use crate::event::message::OutboxMessageId;
use crate::event::unique::{UNIQUE_ID, nonce};
use crate::queue::{DeadLetterId, QueueId, signal};
use sea_orm::{DatabaseTransaction, DbErr};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The header of a requeued message that carries the id of the first message.
pub const REQUEUED_FROM: &str = "outbox-requeued-from";

/// How many letters one transaction requeues.
const PART: usize = 100;

/// A letter that was requeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Requeued {
    /// The letter, which is resolved.
    pub letter: DeadLetterId,
    /// The new message.
    pub message: OutboxMessageId,
}

/// A letter that could not be requeued. It is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("dead letter {letter} cannot be requeued: {refusal}")]
#[non_exhaustive]
pub struct NotRequeued {
    /// The letter.
    pub letter: DeadLetterId,
    /// Why.
    pub refusal: RequeueRefusal,
}

/// Why a letter could not be requeued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequeueRefusal {
    /// Its consumer does not exist any more, so the message would never be delivered.
    #[error("queue `{queue}` has no consumer `{consumer}` any more")]
    NoConsumer {
        /// The queue.
        queue: String,
        /// The consumer that failed.
        consumer: String,
    },
    /// It cannot be repaired, because it cannot be decoded.
    #[error(transparent)]
    Undecodable(Undecodable),
    /// The repaired event could not be written as JSON.
    #[error("the repaired event cannot be written as JSON: {0}")]
    Encode(String),
    /// The repaired event is larger than its type allows.
    #[error("the repaired payload has {size} bytes, the limit is {limit}")]
    PayloadTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

/// The result of requeueing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RequeueReport {
    /// The letters that were requeued, in order.
    pub requeued: Vec<Requeued>,
    /// The letters that could not be requeued, and why.
    pub refused: Vec<NotRequeued>,
    /// How many letters were requested by id and not changed: they do not exist, are already
    /// resolved or discarded, or are held by a claim.
    pub unchanged: u64,
}

/// The content of the new message.
pub(super) struct Content {
    pub(super) event_type: Cow<'static, str>,
    pub(super) payload: Vec<u8>,
}

/// Makes the content of the new message from a letter.
pub(super) type Repair<'a> =
    dyn FnMut(&DeadLetterMessage) -> Result<Content, RequeueRefusal> + Send + 'a;

impl DeadLetters {
    pub(super) async fn requeue_each(
        &self,
        scope: DeadLetterScope,
        repair: &mut Repair<'_>,
    ) -> Result<RequeueReport, DbErr> {
        let began = Instant::now();
        let asked = scope.ids.as_ref().map_or(0, Vec::len);
        let size = self
            .rate
            .map_or(PART, |rate| PART.min(rate as usize / 4 + 1));
        let mut parts = Parts::of(&self.db, scope, size).await?;
        let mut report = RequeueReport::default();
        while let Some((scope, part)) = parts.next() {
            if let Some(rate) = self.rate {
                let sent = u32::try_from(report.requeued.len()).unwrap_or(u32::MAX);
                let due = began + Duration::from_secs(1) * sent / rate;
                tokio::time::sleep_until(due.into()).await;
            }
            let mut races = Races::default();
            let ids = loop {
                match self.requeue_part(&scope, part, repair, &mut report).await {
                    Ok(ids) => break ids,
                    Err(error) => races.again(error).await?,
                }
            };
            parts.found(part, &ids);
        }
        let settled = report.requeued.len() + report.refused.len();
        report.unchanged = asked.saturating_sub(settled) as u64;
        Ok(report)
    }

    /// Requeues one part. New messages and changes of their letters are one transaction.
    async fn requeue_part(
        &self,
        scope: &DeadLetterScope,
        part: Part,
        repair: &mut Repair<'_>,
        report: &mut RequeueReport,
    ) -> Result<Vec<i64>, DbErr> {
        let tx = begin(&self.db).await?;
        let mut done = match send_part(&tx, scope, part, repair).await {
            Ok(done) => done,
            Err(error) => {
                // Rolls back now, not when the connection is back in its pool. Until then the
                // letters are locked, and the next try would pass over them.
                let _ = tx.rollback().await;
                return Err(error);
            }
        };
        tx.commit().await?;
        report.requeued.append(&mut done.requeued);
        report.refused.append(&mut done.refused);
        done.queues.into_iter().for_each(signal::send);
        Ok(done.ids)
    }

    /// Sends letters that no claim holds through their queues again. Each becomes a new message of
    /// its key, at the end of its partition, for the consumer that failed and no other. The letter
    /// is resolved in the same transaction. Its `requeued_as` names the new message, and the new
    /// message names the first one in its header [`REQUEUED_FROM`]. Letters are sent a part at a
    /// time, at most [`requeue_rate`](Self::requeue_rate) a second.
    ///
    /// # Errors
    /// If the database cannot be reached. What was requeued before stays so.
    pub async fn requeue(&self, scope: impl Into<DeadLetterScope>) -> Result<RequeueReport, DbErr> {
        let scope = scope.into();
        let mut as_it_is = |letter: &DeadLetterMessage| {
            Ok(Content {
                event_type: letter.event_type.clone().into(),
                payload: letter.payload.clone(),
            })
        };
        self.requeue_each(scope, &mut as_it_is).await
    }
}

/// The result of a part, before it is committed.
#[derive(Default)]
struct PartDone {
    ids: Vec<i64>,
    requeued: Vec<Requeued>,
    refused: Vec<NotRequeued>,
    queues: BTreeSet<QueueId>,
}

async fn send_part(
    tx: &DatabaseTransaction,
    scope: &DeadLetterScope,
    part: Part,
    repair: &mut Repair<'_>,
) -> Result<PartDone, DbErr> {
    let mut done = PartDone {
        ids: dead_letter::eligible(tx, &scope.conditions(), Holder::Nobody, part, true).await?,
        ..PartDone::default()
    };
    // In the order of their ids. Within a key that is the order of the messages.
    for letter in DeadLetterMessage::all(dead_letter::by_ids(tx, &done.ids).await?)? {
        let queue_id = QueueId::of(&letter.queue);
        let known = dead_letter::can_be_requeued(tx, queue_id, &letter.consumer).await?;
        let content = if known {
            repair(&letter)
        } else {
            Err(RequeueRefusal::NoConsumer {
                queue: letter.queue.clone(),
                consumer: letter.consumer.clone(),
            })
        };
        match content {
            Ok(content) => {
                let row = new_row(&letter, content);
                let id = dead_letter::send_again(tx, letter.id.get(), queue_id, row).await?;
                done.queues.insert(queue_id);
                done.requeued.push(Requeued {
                    letter: letter.id,
                    message: id.into(),
                });
            }
            Err(refusal) => done.refused.push(NotRequeued {
                letter: letter.id,
                refusal,
            }),
        }
    }
    Ok(done)
}

/// The new message keeps the letter's slot, because the other messages of its key are there. Limits
/// are not checked again: the content was accepted once. A repaired message is a different message,
/// so it gets a unique id of its own.
fn new_row(letter: &DeadLetterMessage, content: Content) -> NewRow {
    let mut headers = letter.headers.clone();
    headers.insert(REQUEUED_FROM, letter.message_id.to_string());
    if content.event_type == letter.event_type && content.payload == letter.payload {
        headers.insert(UNIQUE_ID, letter.unique_id.to_string());
    } else {
        headers.remove(UNIQUE_ID);
    }
    NewRow {
        slot: letter.slot,
        nonce: nonce(),
        event_type: content.event_type,
        key: letter.key.clone(),
        payload: content.payload,
        headers: Some(headers.to_json()),
        target: Some(letter.consumer.clone()),
    }
}
