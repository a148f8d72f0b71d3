//! Which messages are known: up to the window, and not too many bytes.

use super::Session;
use crate::database::attempts::Attempts;
use crate::database::read_ahead::{self, Held, Known};
use crate::database::registration::StoredConsumer;
use crate::delivery::lanes::Lanes;
use crate::delivery::opening::{RouteDecision, decide_route, log_missing_body};
use crate::handler::OutboxMessage;
use sea_orm::DbErr;
use std::time::Instant;

/// The messages that a session knows.
pub(super) struct Window {
    pub(super) lanes: Lanes<KnownMessage>,
    /// The last message read, number and id.
    pub(super) read: (i64, i64),
    /// Whether there may be messages that are not known yet.
    pub(super) more: bool,
    /// Whether the next message is of a type that another process handles.
    pub(super) foreign: bool,
    /// Whether it was full when it was looked at last: that is logged once.
    was_full: bool,
}

/// A message in the window.
pub(super) struct KnownMessage {
    pub(super) message: OutboxMessage,
    /// What is on record, without a charge for the attempt under way.
    pub(super) attempts: Attempts,
    /// Whether it is charged with a death that it has not died yet.
    pub(super) charged: bool,
}

impl Window {
    pub(super) fn new(held: &Held) -> Self {
        Self {
            lanes: Lanes::new(held.processed),
            read: (held.processed, 0),
            more: true,
            foreign: false,
            was_full: false,
        }
    }
}

impl Session<'_> {
    /// Whether so little is left to start that more should be read.
    pub(super) fn wants_more(&mut self) -> bool {
        // What is behind the cursor takes no room.
        self.window.lanes.processed();
        let room = self.window.lanes.len() < self.consumer.window as usize;
        let room = room && self.bytes_left() > 0;
        if !room && !self.window.was_full {
            self.log_full_window();
        }
        self.window.was_full = !room;
        let low = self.window.lanes.ready() < self.consumer.concurrency as usize;
        self.window.more && !self.window.foreign && room && low
    }

    /// How many more bytes of payloads may be known: two batches in all, one that runs and
    /// one that is ready.
    fn bytes_left(&self) -> i64 {
        let known = i64::try_from(self.window.lanes.bytes()).unwrap_or(i64::MAX);
        (self.consumer.most_bytes().saturating_mul(2)).saturating_sub(known)
    }

    /// Reads the next messages.
    pub(super) async fn fetch(&mut self) -> Result<(), DbErr> {
        let room = self.consumer.window as usize - self.window.lanes.len();
        let batch = self.consumer.tuning.batch_size;
        let limit = (batch.max(self.consumer.concurrency) as usize).min(room);
        let limit = u32::try_from(limit.max(1)).unwrap_or(1);
        let permit = self.consumer.statements.acquire().await;
        let (known, more) = read_ahead::read(
            &self.consumer.db,
            self.partition_id(),
            &self.consumer.name,
            self.window.lanes.last(),
            limit,
            self.bytes_left().min(self.consumer.most_bytes()),
        )
        .await?;
        drop(permit);
        let mut stored = None;
        for known in known {
            let read = (known.row.seq, known.row.id);
            if !self.add(known, &mut stored).await? {
                break;
            }
            self.window.read = read;
        }
        // Only now: after an error in between, some of them are still to be read.
        self.window.more = more;
        Ok(())
    }

    /// Adds a message to the window; false if it is another process's to handle.
    async fn add(
        &mut self,
        mut known: Known,
        stored: &mut Option<StoredConsumer>,
    ) -> Result<bool, DbErr> {
        let seq = known.row.seq;
        let consumer = self.consumer;
        let Some(body) = known.row.body.take() else {
            log_missing_body(consumer, self.partition, known.row.id);
            self.window.lanes.add_done(seq);
            return Ok(true);
        };
        self.cursor.recorded |= known.attempt.is_some();
        let elsewhere = body.target.as_ref().is_some_and(|t| *t != consumer.name);
        let done = known.attempt.is_some_and(|attempt| attempt.done);
        if elsewhere || done {
            self.window.lanes.add_done(seq);
            return Ok(true);
        }
        match decide_route(consumer, &consumer.db, &body.event_type, stored).await? {
            RouteDecision::PassOver => {
                self.window.lanes.add_done(seq);
                return Ok(true);
            }
            RouteDecision::Foreign { elsewhere: true } => {
                self.window.foreign = true;
                return Ok(false);
            }
            RouteDecision::Ours | RouteDecision::Foreign { elsewhere: false } => {}
        }
        let attempts = known.attempt.map(|attempt| attempt.attempts);
        let due = known.attempt.map(|attempt| attempt.due_in);
        let due = due.filter(|due_in| !due_in.is_zero());
        let bytes = body.payload.len() + body.key.len();
        let key = body.key.clone();
        let queue = &consumer.queue;
        let message = KnownMessage {
            message: OutboxMessage::new(queue, self.partition, &known.row, body, 0),
            attempts: attempts.unwrap_or_default(),
            charged: false,
        };
        let due = due.map(|due_in| Instant::now() + due_in);
        self.window.lanes.add(seq, key, message, bytes, due);
        Ok(true)
    }

    /// Says which message the partition waits for.
    fn log_full_window(&mut self) {
        let lanes = &mut self.window.lanes;
        let processed = lanes.processed();
        if let Some(known) = lanes.message(processed + 1) {
            tracing::warn!(
                queue = &*self.consumer.queue,
                partition = self.partition,
                consumer = self.consumer.name,
                sequence = known.message.sequence(),
                event = known.message.event_type(),
                id = known.message.id().get(),
                attempts = known.attempts.total(),
                "the window is full: the partition waits for this message"
            );
        }
    }
}
