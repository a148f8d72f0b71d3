//! From rows to messages: which of them this process handles.
//!
//! A message for another consumer is passed over. So is a message of a type that no
//! version of this consumer ever handled, if this binary knows the type: that
//! is a queue with several kinds of events. A type that other versions of this
//! consumer handle, or that this binary does not know, is not ours to skip.

use super::claim::Claim;
use super::consumer::Consumer;
use super::guard::LeaseClock;
use crate::database::cursor::{Claimed, RawBody, RawRow};
use crate::database::registration::{StoredConsumer, stored_consumer};
use crate::handler::OutboxMessage;
use sea_orm::{ConnectionTrait, DbErr};
use std::time::Duration;

/// How long a consumer's complete process may be silent before it counts as gone.
const SEEN_RECENTLY: Duration = Duration::from_secs(60);

/// A claim whose messages were looked at.
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
        charge: None,
        recorded: claimed.attempts.is_some(),
        messages: Vec::with_capacity(claimed.rows.len()),
        last_seq: 0,
        last_id: 0,
    };
    let mut stored: Option<StoredConsumer> = None;
    let mut first = true;
    for mut row in claimed.rows {
        claim.recorded |= row.done && row.body.is_some();
        if let Some(body) = body_to_route(consumer, partition, &mut row) {
            let route = decide_route(consumer, conn, &body.event_type, &mut stored).await?;
            if matches!(route, RouteDecision::Foreign { .. }) && !first {
                return Ok(OpenedClaim::Ours(claim));
            }
            if route != RouteDecision::PassOver {
                let tried = attempts.total().unsigned_abs();
                let message = OutboxMessage::new(&consumer.queue, partition, &row, body, tried);
                claim.messages.push(message);
            }
            if let RouteDecision::Foreign { elsewhere } = route {
                (claim.last_seq, claim.last_id) = (row.seq, row.id);
                return Ok(OpenedClaim::Foreign { claim, elsewhere });
            }
        }
        (claim.last_seq, claim.last_id) = (row.seq, row.id);
        first = false;
    }
    Ok(OpenedClaim::Ours(claim))
}

/// The body of a message that this consumer has not done and that may be for it.
fn body_to_route(consumer: &Consumer, partition: u32, row: &mut RawRow) -> Option<RawBody> {
    let Some(body) = row.body.take() else {
        log_missing_body(consumer, partition, row.id);
        return None;
    };
    let is_for_us = |target: &String| *target == consumer.name;
    (!row.done && body.target.as_ref().is_none_or(is_for_us)).then_some(body)
}

/// The body of a message was deleted while the message is still in the log.
pub(super) fn log_missing_body(consumer: &Consumer, partition: u32, id: i64) {
    tracing::error!(
        queue = &*consumer.queue,
        partition,
        id,
        "a message has no body any more; passing over it"
    );
}

/// Which process the messages of an event type are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteDecision {
    /// This process has a handler for it.
    Ours,
    /// No process of this consumer handles it.
    PassOver,
    /// Another process may have a handler for it.
    Foreign {
        /// Whether a process that has a handler was seen recently.
        elsewhere: bool,
    },
}

/// Decides which process handles an event type. What the database knows of the consumer is asked
/// after the claim, and once. So a process that registered before these messages were enqueued is
/// in the answer.
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
