//! From rows to messages: which are this process's to handle.
//!
//! A message for another consumer is passed over. So is one of a type that no
//! version of this consumer ever handled, if this binary knows the type: that
//! is a queue with several kinds of events. A type that other versions of this
//! consumer handle, or that nobody here knows, is not ours to skip.

use super::guard::LeaseClock;
use super::processor::{Claim, Consumer};
use crate::handler::OutboxMessage;
use crate::store::cursor::Claimed;
use crate::store::registration::{StoredConsumer, stored_consumer};
use sea_orm::DbErr;
use std::time::Duration;

/// How long a consumer's complete process may be silent before it counts as gone.
const SEEN_RECENTLY: Duration = Duration::from_secs(60);

/// A claim, looked at.
pub(super) enum Opened {
    /// Messages to handle; none if all were passed over.
    Ours(Claim),
    /// The first message is of a type this process has no handler for.
    Foreign {
        /// With that message alone.
        claim: Claim,
        /// Whether a process that has one was seen recently.
        elsewhere: bool,
    },
}

/// Turns rows into messages, up to the first that is not ours to pass over.
pub(super) async fn open(
    consumer: &Consumer,
    partition: u32,
    claimed: Claimed,
    clock: LeaseClock,
) -> Result<Opened, DbErr> {
    let attempts = claimed.charged.map_or(0, |n| n.unsigned_abs() - 1);
    let mut claim = Claim {
        partition,
        partition_id: consumer.queue_id | i64::from(partition),
        epoch: claimed.epoch,
        clock,
        recovering: claimed.recovering,
        charged: claimed.charged,
        messages: Vec::with_capacity(claimed.rows.len()),
        last_seq: 0,
    };
    let mut stored: Option<StoredConsumer> = None;
    let mut first = true;
    for mut row in claimed.rows {
        match row.body.take() {
            None => tracing::error!(
                queue = &*consumer.queue,
                partition,
                id = row.id,
                "a message has no body any more; passing over it"
            ),
            Some(body) if body.target.as_ref().is_some_and(|t| *t != consumer.name) => {}
            Some(body) => {
                let handled = consumer.handles(&body.event_type);
                if !handled && stored.is_none() {
                    // Asked after the claim: whoever registered before these
                    // messages were enqueued is in the answer.
                    let (db, name) = (&consumer.db, &consumer.name);
                    stored = Some(stored_consumer(db, consumer.queue_id, name).await?);
                }
                let skipped = stored.as_ref().is_some_and(|stored| {
                    !stored.handles(&body.event_type)
                        && consumer.known_types.contains(&body.event_type)
                });
                if handled || !skipped {
                    let queue = &consumer.queue;
                    let message = OutboxMessage::new(queue, partition, &row, body, attempts);
                    if !handled && !first {
                        return Ok(Opened::Ours(claim));
                    }
                    claim.messages.push(message);
                }
                if !handled && !skipped {
                    claim.last_seq = row.seq;
                    let elsewhere = stored.is_some_and(|stored| {
                        !consumer.handles_all(&stored.event_types)
                            && stored.silent_for < SEEN_RECENTLY
                    });
                    return Ok(Opened::Foreign { claim, elsewhere });
                }
            }
        }
        claim.last_seq = row.seq;
        first = false;
    }
    Ok(Opened::Ours(claim))
}
