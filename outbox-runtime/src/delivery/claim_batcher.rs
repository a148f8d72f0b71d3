//! Claims of many partitions in one statement.
//!
//! A statement costs much, whatever it is for. So a turn that wants to claim hands its request to the
//! batcher. While one statement runs, the requests that arrive meanwhile are collected for the next.
//! The statement answers only usual cases, and the database decides which those are. A turn that gets
//! no answer claims by itself ([`cursor::claim`](crate::database::cursor::claim)), also after an
//! error: acknowledging once more what may have been acknowledged does no harm.

use crate::database::connection_cache::ConnectionCache;
use crate::database::cursor::{Claimed, QuickClaim, can_claim_together, claim_together};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// A statement is for no more messages than this, so that its answer stays small.
const MOST_MESSAGES: u32 = 2_000;

/// A request that has waited for this time gets a statement of its own, because the running statement
/// may be waiting for a lock.
const PATIENCE: Duration = Duration::from_millis(50);

/// Collects requests, and claims for all of them together.
pub(crate) struct ClaimBatcher {
    connections: Arc<ConnectionCache>,
    owner: Arc<str>,
    asynchronous_commit: bool,
    /// Bounds the connections our own short statements use in this process.
    statements: Arc<Semaphore>,
    queue: Mutex<RequestQueue>,
}

/// Requests that no statement has taken yet.
#[derive(Default)]
struct RequestQueue {
    requests: Vec<(QuickClaim, oneshot::Sender<Answer>)>,
    /// Whether a task runs that will take them.
    attended: bool,
    /// Whether a task is about to take them. Another one would only wait in the same line.
    starting: bool,
}

/// What was claimed, and when the statement began: its leases began then at the earliest.
type Answer = (Claimed, Instant);

impl ClaimBatcher {
    /// `None` if the engine has no such statement.
    pub(crate) fn new(
        connections: &Arc<ConnectionCache>,
        owner: &Arc<str>,
        asynchronous_commit: bool,
        statements: &Arc<Semaphore>,
    ) -> Option<Arc<Self>> {
        let batcher = Self {
            connections: connections.clone(),
            owner: owner.clone(),
            asynchronous_commit,
            statements: statements.clone(),
            queue: Mutex::default(),
        };
        can_claim_together(connections.pool()).then(|| Arc::new(batcher))
    }

    /// Claims together with all requests that arrive at the same time. `None` if this was not the
    /// usual case.
    pub(crate) async fn claim(self: &Arc<Self>, request: QuickClaim) -> Option<Answer> {
        let (sender, mut answer) = oneshot::channel();
        self.queue().requests.push((request, sender));
        self.start_task(false);
        loop {
            if let Ok(claimed) = tokio::time::timeout(PATIENCE, &mut answer).await {
                return claimed.ok();
            }
            self.start_task(true);
        }
    }

    /// Starts the batching task unless one is about to run. If `impatient`, also beside one that is
    /// busy with a statement.
    fn start_task(self: &Arc<Self>, impatient: bool) {
        let mut queue = self.queue();
        let attended = queue.starting || (queue.attended && !impatient);
        if queue.requests.is_empty() || attended {
            return;
        }
        (queue.attended, queue.starting) = (true, true);
        tokio::spawn(self.clone().run());
    }

    /// The batching task: one statement after the other, until there are no requests.
    async fn run(self: Arc<Self>) {
        loop {
            // Turns that were woken together make their requests in this moment.
            tokio::task::yield_now().await;
            let permit = self.statements.acquire().await;
            let (requests, senders) = self.next_batch();
            if requests.is_empty() {
                return;
            }
            let began = Instant::now();
            let claimed = claim_together(
                &self.connections,
                &requests,
                &self.owner,
                self.asynchronous_commit,
            );
            let claimed = AssertUnwindSafe(claimed).catch_unwind().await;
            drop(permit);
            match claimed {
                Ok(Ok(claimed)) => {
                    for (sender, claimed) in senders.into_iter().zip(claimed) {
                        if let Some(claimed) = claimed {
                            // A turn that does not wait any more has stopped. Its lease runs out.
                            let _ = sender.send((claimed, began));
                        }
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "claiming together failed"),
                Err(_) => tracing::error!("claiming together panicked"),
            }
        }
    }

    /// The requests of the next statement; none end the task. They are in the order of the cursors,
    /// so that two processes never wait for each other.
    fn next_batch(&self) -> (Vec<QuickClaim>, Vec<oneshot::Sender<Answer>>) {
        let mut queue = self.queue();
        // No turn would work on what was claimed for these.
        queue.requests.retain(|(_, sender)| !sender.is_closed());
        let mut messages = 0;
        let beyond = queue.requests.iter().position(|(request, _)| {
            messages += request.limit;
            messages > MOST_MESSAGES
        });
        let count = beyond.unwrap_or(queue.requests.len()).max(1);
        let count = count.min(queue.requests.len());
        (queue.attended, queue.starting) = (count > 0, false);
        let mut batch: Vec<_> = queue.requests.drain(..count).collect();
        batch.sort_by(|(a, _), (b, _)| {
            (a.partition_id, &a.consumer).cmp(&(b.partition_id, &b.consumer))
        });
        batch.into_iter().unzip()
    }

    fn queue(&self) -> MutexGuard<'_, RequestQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
