//! Claims of many partitions in one statement.
//!
//! A statement costs much, whatever it is for. So who wants to claim asks here, and while
//! one statement runs, what is asked meanwhile is put together for the next. Only for the
//! usual case, which the database decides; whoever is told `None` asks for itself
//! ([`cursor::claim`](crate::database::cursor::claim)), also after an error: saying again what
//! may have been saved does no harm.

use crate::database::connection_cache::Kept;
use crate::database::cursor::{Claimed, QuickClaim, can_claim_together, claim_together};

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// A statement is for no more messages than this, so that its answer stays small.
const MOST_MESSAGES: u32 = 2_000;

/// Who has waited so long is not held up by a statement that waits for somebody's lock.
const PATIENCE: Duration = Duration::from_millis(50);

/// Puts claims together.
pub(crate) struct Claims {
    kept: Arc<Kept>,
    owner: Arc<str>,
    asynchronous: bool,
    /// Bounds the connections our own short statements use in this process.
    statements: Arc<Semaphore>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    requests: Vec<(QuickClaim, oneshot::Sender<Answer>)>,
    /// Whether somebody will see to them.
    attended: bool,
    /// Whether somebody is about to: more would only wait in the same line.
    starting: bool,
}

/// What was claimed, and when the statement began, which is when its leases did at the
/// earliest.
type Answer = (Claimed, Instant);

impl Claims {
    /// None for an engine that has no such statement.
    pub(crate) fn new(
        kept: &Arc<Kept>,
        owner: &Arc<str>,
        asynchronous: bool,
        statements: &Arc<Semaphore>,
    ) -> Option<Arc<Self>> {
        let claims = Self {
            kept: kept.clone(),
            owner: owner.clone(),
            asynchronous,
            statements: statements.clone(),
            asked: Mutex::default(),
        };
        can_claim_together(kept.pool()).then(|| Arc::new(claims))
    }

    /// Claims together with whoever asks at the same time.
    pub(crate) async fn claim(self: &Arc<Self>, request: QuickClaim) -> Option<Answer> {
        let (tell, mut told) = oneshot::channel();
        self.asked().requests.push((request, tell));
        self.attend(false);
        loop {
            if let Ok(claimed) = tokio::time::timeout(PATIENCE, &mut told).await {
                return claimed.ok();
            }
            self.attend(true);
        }
    }

    /// Sees to it that somebody sees to what is asked.
    fn attend(self: &Arc<Self>, impatient: bool) {
        let mut asked = self.asked();
        let attended = asked.starting || (asked.attended && !impatient);
        if asked.requests.is_empty() || attended {
            return;
        }
        (asked.attended, asked.starting) = (true, true);
        tokio::spawn(self.clone().run());
    }

    async fn run(self: Arc<Self>) {
        loop {
            // Those who were woken together ask in this moment.
            tokio::task::yield_now().await;
            let permit = self.statements.acquire().await;
            let (requests, tell) = self.next();
            if requests.is_empty() {
                return;
            }
            let began = Instant::now();
            let claimed = claim_together(&self.kept, &requests, &self.owner, self.asynchronous);
            let claimed = AssertUnwindSafe(claimed).catch_unwind().await;
            drop(permit);
            match claimed {
                Ok(Ok(claimed)) => {
                    for (tell, claimed) in tell.into_iter().zip(claimed) {
                        if let Some(claimed) = claimed {
                            // Who does not listen any more has stopped; its lease runs out.
                            let _ = tell.send((claimed, began));
                        }
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "claiming together failed"),
                Err(_) => tracing::error!("claiming together panicked"),
            }
        }
    }

    /// What the next statement is for; nothing ends the task that asks. In the order of
    /// the cursors, so that two processes never wait for each other.
    fn next(&self) -> (Vec<QuickClaim>, Vec<oneshot::Sender<Answer>>) {
        let mut asked = self.asked();
        // Nobody would work on it.
        asked.requests.retain(|(_, tell)| !tell.is_closed());
        let mut messages = 0;
        let beyond = asked.requests.iter().position(|(request, _)| {
            messages += request.limit;
            messages > MOST_MESSAGES
        });
        let count = beyond.unwrap_or(asked.requests.len()).max(1);
        let count = count.min(asked.requests.len());
        (asked.attended, asked.starting) = (count > 0, false);
        let mut next: Vec<_> = asked.requests.drain(..count).collect();
        next.sort_by(|(a, _), (b, _)| {
            (a.partition_id, &a.consumer).cmp(&(b.partition_id, &b.consumer))
        });
        next.into_iter().unzip()
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
