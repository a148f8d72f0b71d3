//! Which handler gets which message, and handing messages over, run by run.

use super::guard::{LeaseClock, Limit, RunContext};
use crate::config::RetryPolicy;
use crate::database::transaction::{abort, is_over};
use crate::handler::{AnyHandler, HandlerResult, OutboxMessage, Progress, concluded};
use sea_orm::DatabaseTransaction;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A handler, and what is to be known for calling it.
pub(crate) struct Route {
    pub(crate) handler: AnyHandler,
    pub(crate) retry: RetryPolicy,
    /// The most messages a handler of batches gets at once.
    pub(crate) batch: Option<u32>,
    /// How long one call may take.
    pub(crate) timeout: Option<Duration>,
}

/// The handlers of a consumer, by event type.
#[derive(Default)]
pub(crate) struct Routes {
    by_type: BTreeMap<String, Arc<Route>>,
    /// For every other type.
    all: Option<Arc<Route>>,
}

impl Routes {
    /// Adds a handler of these types; `None` for all.
    pub(crate) fn add(&mut self, event_types: Option<&BTreeSet<String>>, route: Route) {
        let route = Arc::new(route);
        match event_types {
            None => self.all = Some(route),
            Some(types) => self
                .by_type
                .extend(types.iter().map(|name| (name.clone(), route.clone()))),
        }
    }

    pub(crate) fn get(&self, event_type: &str) -> Option<&Arc<Route>> {
        self.by_type.get(event_type).or(self.all.as_ref())
    }

    /// The fewest attempts that any of its handlers allows.
    pub(crate) fn fewest_attempts(&self) -> u32 {
        let routes = self.by_type.values().chain(self.all.as_ref());
        let attempts = routes.map(|route| route.retry.max_attempts);
        attempts.min().unwrap_or(u32::MAX)
    }

    /// The types it has handlers for; `None` for all.
    pub(crate) fn event_types(&self) -> Option<BTreeSet<String>> {
        match self.all {
            Some(_) => None,
            None => Some(self.by_type.keys().cloned().collect()),
        }
    }

    /// Hands messages of one partition to their handlers, in order, up to the
    /// first that fails. A rejected one is left behind; in a transaction it is a failure.
    /// Ends early, with success, if the rest should have a lease of its own.
    pub(crate) async fn walk(
        &self,
        tx: Option<&DatabaseTransaction>,
        messages: &[OutboxMessage],
        progress: &mut Progress,
        running: &RunContext,
        clock: LeaseClock,
    ) -> HandlerResult {
        let mut before = 0;
        while let Some((first, rest)) = messages[progress.settled()..].split_first() {
            let enough = || clock.is_half_over() || running.is_cancelled();
            if progress.settled() > 0 && enough() {
                break;
            }
            if let Some(tx) = tx
                && progress.settled() > 0
                && is_over(tx).await.unwrap_or(false)
            {
                // What the next message writes would stay, and be written again.
                progress.back_to(before);
                return HandlerResult::retry(
                    "the database ended its transaction, probably with a deadlock that the \
                     handler ignored",
                );
            }
            before = progress.settled();
            let Some(route) = self.get(first.event_type()) else {
                return HandlerResult::retry("it has no handler");
            };
            let run = 1 + self.following(route, rest);
            let start = progress.settled();
            let mut batch = progress.batch(messages[start..start + run].to_vec());
            let limit = Limit::start(route.timeout, running.ctx(first.clone()));
            let call = route.handler.call(tx, &mut batch, limit.ctx());
            let before_drop = async || {
                if let Some(tx) = tx {
                    abort(tx).await;
                }
            };
            let result = limit.run(call, before_drop).await;
            let result = concluded(result, &mut batch);
            let rejected = tx.and_then(|_| progress.back_to_rejected());
            if let Some(reason) = rejected {
                return HandlerResult::Reject { reason };
            }
            // A handler of batches that came to a part only is called again with the rest.
            if result != HandlerResult::Success {
                return result;
            }
        }
        HandlerResult::Success
    }

    /// How many of the next messages go to the same handler in one call.
    fn following(&self, route: &Arc<Route>, messages: &[OutboxMessage]) -> usize {
        if !route.handler.takes_batches() {
            return 0;
        }
        let most = route.batch.map_or(usize::MAX, |batch| batch as usize);
        let same = |message: &&OutboxMessage| {
            let other = self.get(message.event_type());
            other.is_some_and(|other| Arc::ptr_eq(other, route))
        };
        let messages = messages.iter().take(most.saturating_sub(1));
        messages.take_while(same).count()
    }
}
