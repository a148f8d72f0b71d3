//! From rows to messages: which are this process's to handle.
//!
//! A message for another consumer is passed over. So is one of a type that no
//! version of this consumer ever handled, if this binary knows the type: that
//! is a queue with several kinds of events. A type that other versions of this
//! consumer handle, or that nobody here knows, is not ours to skip.

use super::claim::Claim;
use super::consumer::Consumer;
use super::guard::LeaseClock;
use crate::database::cursor::Claimed;
use crate::database::registration::{StoredConsumer, stored_consumer};
use crate::handler::OutboxMessage;
use sea_orm::{ConnectionTrait, DbErr};
use std::time::Duration;

/// How long a consumer's complete process may be silent before it counts as gone.
const SEEN_RECENTLY: Duration = Duration::from_secs(60);

/// A claim, looked at.
pub(super) enum OpenedClaim {
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
pub(super) async fn open<C: ConnectionTrait>(
    consumer: &Consumer,
    conn: &C,
    partition: u32,
    claimed: Claimed,
    clock: LeaseClock,
) -> Result<OpenedClaim, DbErr> {
    let attempts = claimed.attempts.unwrap_or_default();
    let mut claim = Claim {
        partition,
        partition_id: consumer.queue_id.partition(partition),
        epoch: claimed.epoch,
        clock,
        recovering: claimed.recovering,
        attempts,
        charged: false,
        overran: false,
        recorded: claimed.attempts.is_some(),
        messages: Vec::with_capacity(claimed.rows.len()),
        last_seq: 0,
        last_id: 0,
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
            Some(_) if row.done => claim.recorded = true,
            Some(body) if body.target.as_ref().is_some_and(|t| *t != consumer.name) => {}
            Some(body) => {
                let decision = decide_route(consumer, conn, &body.event_type, &mut stored).await?;
                if decision != RouteDecision::PassOver {
                    if decision != RouteDecision::Ours && !first {
                        return Ok(OpenedClaim::Ours(claim));
                    }
                    let queue = &consumer.queue;
                    let message = OutboxMessage::new(
                        queue,
                        partition,
                        &row,
                        body,
                        attempts.total().unsigned_abs(),
                    );
                    claim.messages.push(message);
                }
                if let RouteDecision::Foreign { elsewhere } = decision {
                    (claim.last_seq, claim.last_id) = (row.seq, row.id);
                    return Ok(OpenedClaim::Foreign { claim, elsewhere });
                }
            }
        }
        (claim.last_seq, claim.last_id) = (row.seq, row.id);
        first = false;
    }
    Ok(OpenedClaim::Ours(claim))
}

/// Whose an event type is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteDecision {
    Ours,
    /// Nobody's of this consumer.
    PassOver,
    /// That of another process, perhaps of none.
    Foreign {
        /// Whether a process that has a handler was seen recently.
        elsewhere: bool,
    },
}

/// Says whose an event type is. What the database knows of the consumer is asked
/// after the claim, and once: whoever registered before these messages were
/// enqueued is in the answer.
pub(super) async fn decide_route<C: ConnectionTrait>(
    consumer: &Consumer,
    conn: &C,
    event_type: &str,
    stored: &mut Option<StoredConsumer>,
) -> Result<RouteDecision, DbErr> {
    if consumer.handles(event_type) {
        return Ok(RouteDecision::Ours);
    }
    if stored.is_none() {
        *stored = Some(stored_consumer(conn, consumer.queue_id, &consumer.name).await?);
    }
    let Some(stored) = stored else {
        return Ok(RouteDecision::Ours);
    };
    if !stored.handles(event_type) && consumer.known_types.contains(event_type) {
        return Ok(RouteDecision::PassOver);
    }
    let complete = consumer.handles_all(&stored.event_types);
    Ok(RouteDecision::Foreign {
        elsewhere: !complete && stored.silent_for < SEEN_RECENTLY,
    })
}
