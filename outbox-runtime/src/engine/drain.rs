//! One pass after the other, in the caller's task: everything that is due, and then
//! no more. For tests, which want neither loops nor clocks.

use super::builder::OutboxBuilder;
use super::dispatch::Dispatcher;
use super::problem::StartError;
use super::supervisor::{Shared, present};
use crate::stage::concurrent::{self, Signals};
use crate::stage::processor::{Next, PartitionState, turn};
use crate::state::States;
use crate::store::race::Races;
use crate::store::registration::seen;
use crate::store::sequencing::{Places, sequence};
use sea_orm::{DatabaseConnection, DbErr};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// How often messages that handlers enqueued are followed by others, before we say
/// that there is no end to it.
const ROUNDS: u32 = 1_000;

/// An outbox that does nothing by itself.
pub(crate) struct Passes {
    shared: Arc<Shared>,
    states: States,
}

impl OutboxBuilder {
    /// Checks and registers as `start()` does, and runs nothing.
    pub(crate) async fn into_passes(mut self) -> Result<Passes, StartError> {
        self.prepare().await?;
        let states = self.states.clone();
        let shared = self.assemble(&TaskTracker::new());
        Ok(Passes { shared, states })
    }
}

impl Passes {
    pub(crate) fn db(&self) -> &DatabaseConnection {
        &self.shared.db
    }

    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Numbers and hands over everything that is due, also what handlers enqueue
    /// meanwhile. What was done is in the database when it returns.
    pub(crate) async fn run(&self) -> Result<(), DbErr> {
        for present in &present(&self.shared) {
            seen(&self.shared.db, present).await?;
        }
        self.sequence_all().await?;
        for _ in 0..ROUNDS {
            for dispatcher in self.shared.queues.iter().flat_map(|q| &q.dispatchers) {
                for partition in 0..dispatcher.partitions() {
                    work_on(dispatcher, partition).await?;
                }
            }
            if !self.sequence_all().await? {
                return Ok(());
            }
        }
        let endless = format!("handlers enqueued new messages {ROUNDS} times in a row");
        Err(DbErr::Custom(endless))
    }

    /// Numbers what is committed; says whether there was anything.
    async fn sequence_all(&self) -> Result<bool, DbErr> {
        let shared = &self.shared;
        let limit = shared.profile.sequencer.batch_size;
        let mut any = false;
        for runtime in &shared.queues {
            let id = runtime.queue.id();
            let (mut races, mut places) = (Races::default(), Places::default());
            let asynchronous = shared.asynchronous;
            loop {
                match sequence(&shared.kept, id, limit, asynchronous, true, &mut places).await {
                    Ok(done) if done.taken == 0 => break,
                    Ok(_) => any = true,
                    Err(error) => races.again(error).await?,
                }
            }
        }
        Ok(any)
    }
}

/// Hands over what is due in a partition.
async fn work_on(dispatcher: &Dispatcher, partition: u32) -> Result<(), DbErr> {
    let consumer = &dispatcher.consumer;
    let mut state = PartitionState::new(consumer.tuning.batch_size);
    let mut races = Races::default();
    let nobody = Notify::new();
    loop {
        let turned = if consumer.concurrency > 1 {
            let signals = Signals {
                woken: &nobody,
                progress: &nobody,
                leave: true,
            };
            concurrent::turn(consumer, partition, signals).await
        } else {
            turn(consumer, partition, &mut state, None).await
        };
        match turned {
            Ok(Next::Again) => {}
            Ok(Next::Rest | Next::Later(_) | Next::Busy) => return Ok(()),
            Err(error) => races.again(error).await?,
        }
    }
}
