//! Starts an outbox: checks and registers everything, then starts the services.

use super::builder::OutboxBuilder;
use super::handle::{Outbox, OutboxHandle};
use super::problem::{ConfigError, StartError};
use crate::config::backoff;
use crate::database::errors::{ErrorClass, classify};
use crate::database::registration::{self, NewConsumer};
use crate::database::setup;
use crate::queue::Queue;
use crate::registry::events;
use crate::service::{
    notifier, orphan_bodies, reconciler, retention, sequencer, stuck_work, vacuum,
};
use sea_orm::DbErr;
use std::time::Duration;
use tokio_util::task::TaskTracker;

impl OutboxBuilder {
    /// Checks everything, registers queues and consumers in the database, and starts to deliver.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn start(mut self) -> Result<OutboxHandle, StartError> {
        self.prepare().await?;
        for advice in setup::advice(&self.db).await.unwrap_or_default() {
            tracing::warn!("{advice}");
        }
        Ok(self.spawn())
    }

    /// Registers consumers, their queues, and the queues of all events linked into this binary,
    /// without delivering anything. Call it before producers are deployed: a consumer gets what is
    /// committed after it was registered. The first consumer of a queue gets everything.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn register(mut self) -> Result<(), StartError> {
        self.selection.states_are_given_later();
        self.prepare().await?;
        // Queues that this binary only produces to are registered too.
        let mut problems = Vec::new();
        for event in events() {
            let registered = retrying(|| registration::queue(&self.db, &event.queue)).await?;
            if let Err(conflict) = registered {
                problems.push(ConfigError::from_conflict(conflict, &event.queue));
            }
        }
        StartError::unless_empty(problems)
    }

    /// Finds the handlers, checks everything, and registers it in the database.
    pub(super) async fn prepare(&mut self) -> Result<(), StartError> {
        self.discover();
        self.check();
        StartError::unless_empty(std::mem::take(&mut self.problems))?;
        self.register_all().await
    }

    async fn register_all(&self) -> Result<(), StartError> {
        if let Err(error) = outbox_migrations::check(&self.db).await {
            return Err(StartError::new(vec![ConfigError::Schema(error)]));
        }
        let mut problems = Vec::new();
        let mut queues: Vec<&Queue> = Vec::new();
        for spec in &self.consumers {
            if !queues.contains(&&spec.queue) {
                queues.push(&spec.queue);
                let registered = retrying(|| registration::queue(&self.db, &spec.queue)).await?;
                if let Err(conflict) = registered {
                    problems.push(ConfigError::from_conflict(conflict, &spec.queue));
                    continue;
                }
            }
            let types = registration::registered_types(spec.event_types().as_ref());
            let consumer = NewConsumer {
                name: &spec.name,
                mode: spec.mode.as_str(),
                event_types: &types,
                from_earliest: spec.from_earliest,
            };
            let registered =
                retrying(|| registration::consumer(&self.db, &spec.queue, &consumer)).await?;
            if let Err(conflict) = registered {
                problems.push(ConfigError::from_consumer_conflict(conflict, spec));
            }
        }
        // Queues that this binary only produces to are not registered here. But another process may
        // have registered one of them with another number of partitions.
        let mut produced: Vec<Queue> = Vec::new();
        for event in events() {
            if !queues.contains(&&event.queue) && !produced.contains(&event.queue) {
                produced.push(event.queue.clone());
            }
        }
        let conflicts = retrying(|| registration::conflicts(&self.db, &produced)).await?;
        for (queue, conflict) in conflicts {
            problems.push(ConfigError::from_conflict(conflict, queue));
        }
        StartError::unless_empty(problems)
    }

    fn spawn(self) -> OutboxHandle {
        let (retention, notify) = (self.dead_letter_retention, self.notify);
        let tasks = TaskTracker::new();
        let context = self.assemble(&tasks);
        for queue in 0..context.queues.len() {
            tasks.spawn(sequencer::run(context.clone(), queue));
        }
        if !context.queues.is_empty() {
            tasks.spawn(reconciler::run(context.clone()));
            tasks.spawn(vacuum::run(context.clone()));
            tasks.spawn(orphan_bodies::run(context.clone()));
            tasks.spawn(stuck_work::run(context.clone()));
        }
        if let Some(retention) = retention {
            tasks.spawn(retention::run(context.clone(), retention));
        }
        if notify {
            notifier::spawn(&context, &tasks);
        }
        OutboxHandle::new(Outbox::new(context), tasks)
    }
}

/// Runs `work` again if it lost a race. Processes that start at the same moment have such races.
async fn retrying<T, F: Future<Output = Result<T, DbErr>>>(
    mut work: impl FnMut() -> F,
) -> Result<T, StartError> {
    let mut tries = 0;
    loop {
        match work().await {
            Err(error) if tries < 20 && classify(&error) == ErrorClass::Race => {
                tries += 1;
                let pause = backoff(
                    Duration::from_millis(5),
                    Duration::from_millis(200),
                    tries,
                    true,
                );
                tokio::time::sleep(pause).await;
            }
            other => {
                return other.map_err(|error| StartError::new(vec![ConfigError::Database(error)]));
            }
        }
    }
}
