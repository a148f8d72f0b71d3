//! Which messages are known: up to the window, and not too many bytes.

use super::super::opening::{RouteDecision, decide_route};
use super::{Session, WindowMessage};
use crate::database::registration::StoredConsumer;
use crate::database::window::{self, Known};
use crate::handler::OutboxMessage;
use sea_orm::DbErr;
use std::time::Instant;

impl Session<'_> {
    /// Whether so little is left to start that more should be read.
    pub(super) fn wants_more(&mut self) -> bool {
        // What is behind the cursor takes no room.
        self.lanes.processed();
        let room = self.lanes.len() < self.consumer.window as usize;
        let room = room && self.bytes_left() > 0;
        if !room && !self.window_was_full {
            self.log_full_window();
        }
        self.window_was_full = !room;
        let low = self.lanes.ready() < self.consumer.concurrency as usize;
        self.more && !self.foreign && room && low
    }

    /// How many more bytes of payloads may be known: two batches in all, one that runs and
    /// one that is ready.
    fn bytes_left(&self) -> i64 {
        let known = i64::try_from(self.lanes.bytes()).unwrap_or(i64::MAX);
        (self.consumer.most_bytes().saturating_mul(2)).saturating_sub(known)
    }

    pub(super) async fn fetch(&mut self) -> Result<(), DbErr> {
        let room = self.consumer.window as usize - self.lanes.len();
        let batch = self.consumer.tuning.batch_size;
        let limit = (batch.max(self.consumer.concurrency) as usize).min(room);
        let limit = u32::try_from(limit.max(1)).unwrap_or(1);
        let permit = self.consumer.statements.acquire().await;
        let (known, more) = window::read(
            &self.consumer.db,
            self.partition_id(),
            &self.consumer.name,
            self.lanes.last(),
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
            self.read = read;
        }
        // Not before: an error in between leaves some of them for the next time.
        self.more = more;
        Ok(())
    }

    /// Adds a message to the window; false if it is another process's to handle.
    pub(super) async fn add(
        &mut self,
        mut known: Known,
        stored: &mut Option<StoredConsumer>,
    ) -> Result<bool, DbErr> {
        let seq = known.row.seq;
        let consumer = self.consumer;
        let Some(body) = known.row.body.take() else {
            tracing::error!(
                queue = &*consumer.queue,
                partition = self.partition,
                id = known.row.id,
                "a message has no body any more; passing over it"
            );
            self.lanes.add_done(seq);
            return Ok(true);
        };
        self.recorded |= known.attempt.is_some();
        let elsewhere = body.target.as_ref().is_some_and(|t| *t != consumer.name);
        let done = known.attempt.is_some_and(|attempt| attempt.done);
        if elsewhere || done {
            self.lanes.add_done(seq);
            return Ok(true);
        }
        match decide_route(consumer, &consumer.db, &body.event_type, stored).await? {
            RouteDecision::PassOver => {
                self.lanes.add_done(seq);
                return Ok(true);
            }
            RouteDecision::Foreign { elsewhere: true } => {
                self.foreign = true;
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
        let message = OutboxMessage::new(queue, self.partition, &known.row, body, 0);
        let item = WindowMessage {
            message,
            attempts: attempts.unwrap_or_default(),
            charged: false,
        };
        let due = due.map(|due_in| Instant::now() + due_in);
        self.lanes.add(seq, key, item, bytes, due);
        Ok(true)
    }

    pub(super) fn log_full_window(&mut self) {
        let processed = self.lanes.processed();
        if let Some(item) = self.lanes.message(processed + 1) {
            tracing::warn!(
                queue = &*self.consumer.queue,
                partition = self.partition,
                consumer = self.consumer.name,
                sequence = item.message.sequence(),
                event = item.message.event_type(),
                id = item.message.id().get(),
                attempts = item.attempts.total(),
                "the window is full: the partition waits for this message"
            );
        }
    }
}
