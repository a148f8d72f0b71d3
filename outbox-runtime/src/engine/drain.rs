//! One pass after the other, in the caller's task: everything that is due, and then
//! no more. For tests, which want neither loops nor clocks.

use super::builder::OutboxBuilder;
use super::problem::StartError;
use crate::database::race::Races;
use crate::database::registration::seen;
use crate::database::sequencing::{Places, sequence};
use crate::database::{cleanup, cursor};
use crate::delivery::concurrent::{self, Signals};
use crate::delivery::processor::{Next, PartitionState, turn};
use crate::handler::states::States;
use crate::queue::PartitionId;
use crate::service::dispatcher::Dispatcher;
use crate::service::reconciler::present;
use crate::service::supervisor::Shared;
use crate::service::vacuum::oldest;
use sea_orm::{DatabaseConnection, DbErr};
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tokio_util::task::TaskTracker;

/// How often messages that handlers enqueued are followed by others, before we say
/// that there is no end to it.
const ROUNDS: u32 = 1_000;

/// An outbox that does nothing by itself.
pub(crate) struct Passes {
    shared: Arc<Shared>,
    states: States,
    memory: Mutex<Memory>,
}

/// What the loops remember from one pass to the next.
struct Memory {
    /// Of each queue.
    places: Vec<Places>,
    /// Of each consumer's partitions.
    partitions: Vec<Vec<PartitionState>>,
    /// Up to where vacuum has deleted, of each partition.
    vacuumed: Vec<(PartitionId, i64)>,
}

impl Memory {
    fn of(shared: &Shared) -> Self {
        let fresh = |dispatcher: &Arc<Dispatcher>| {
            let batch_size = dispatcher.consumer.tuning.batch_size;
            let states = (0..dispatcher.partitions()).map(|_| PartitionState::new(batch_size));
            states.collect()
        };
        let dispatchers = shared.queues.iter().flat_map(|queue| &queue.dispatchers);
        Self {
            places: shared.queues.iter().map(|_| Places::default()).collect(),
            partitions: dispatchers.map(fresh).collect(),
            vacuumed: oldest(shared).into_iter().collect(),
        }
    }
}

impl OutboxBuilder {
    /// Checks and registers as `start()` does, and runs nothing.
    pub(crate) async fn into_passes(mut self) -> Result<Passes, StartError> {
        self.prepare().await?;
        let states = self.states.clone();
        let shared = self.assemble(&TaskTracker::new());
        let memory = Mutex::new(Memory::of(&shared));
        Ok(Passes {
            shared,
            states,
            memory,
        })
    }
}

impl Passes {
    pub(crate) fn db(&self) -> &DatabaseConnection {
        &self.shared.db
    }

    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Says that the consumers are there, and does everything that is due.
    pub(crate) async fn run(&self) -> Result<(), DbErr> {
        for present in &present(&self.shared) {
            seen(&self.shared.db, present).await?;
        }
        self.pass().await
    }

    /// Numbers and hands over everything that is due, also what handlers enqueue
    /// meanwhile. What was done is in the database when it returns.
    pub(crate) async fn pass(&self) -> Result<(), DbErr> {
        let mut memory = self.memory.lock().await;
        self.sequence_all(&mut memory.places).await?;
        for _ in 0..ROUNDS {
            let dispatchers = self.shared.queues.iter().flat_map(|q| &q.dispatchers);
            for (dispatcher, states) in dispatchers.zip(&mut memory.partitions) {
                for (partition, state) in (0..).zip(states) {
                    work_on(dispatcher, partition, state).await?;
                }
            }
            if !self.sequence_all(&mut memory.places).await? {
                return Ok(());
            }
        }
        let endless = format!("handlers enqueued new messages {ROUNDS} times in a row");
        Err(DbErr::Custom(endless))
    }

    /// Deletes what everybody has passed; says how many rows.
    pub(crate) async fn vacuum(&self) -> Result<i64, DbErr> {
        let shared = &self.shared;
        let from = &mut self.memory.lock().await.vacuumed;
        let limit = shared.profile.vacuum.batch_size;
        let retention = cursor::micros(shared.retention);
        let mut deleted = 0;
        loop {
            let done =
                cleanup::vacuum(&shared.kept, from, limit, retention, shared.asynchronous).await?;
            for partition in &done {
                let is_it = |(id, _): &&mut (PartitionId, i64)| *id == partition.partition_id;
                if let Some((_, after)) = from.iter_mut().find(is_it) {
                    *after = partition.upto;
                }
                deleted += partition.rows;
            }
            if done.iter().all(|done| done.rows < i64::from(limit)) {
                return Ok(deleted);
            }
        }
    }

    /// Numbers what is committed; says whether there was anything.
    async fn sequence_all(&self, places: &mut [Places]) -> Result<bool, DbErr> {
        let shared = &self.shared;
        let limit = shared.profile.sequencer.batch_size;
        let mut any = false;
        for (runtime, places) in shared.queues.iter().zip(places) {
            let id = runtime.queue.queue_id();
            let mut races = Races::default();
            let asynchronous = shared.asynchronous;
            loop {
                match sequence(&shared.kept, id, limit, asynchronous, true, places).await {
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
async fn work_on(
    dispatcher: &Dispatcher,
    partition: u32,
    state: &mut PartitionState,
) -> Result<(), DbErr> {
    let consumer = &dispatcher.consumer;
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
            turn(consumer, partition, state, None).await
        };
        match turned {
            Ok(Next::Again) => {}
            Ok(Next::Rest | Next::Later(_) | Next::Busy) => return Ok(()),
            Err(error) => races.again(error).await?,
        }
    }
}
