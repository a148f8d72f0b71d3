//! Everything that is due, one pass after the other, in the caller's task. For tests, which want
//! neither loops nor clocks.

use super::builder::OutboxBuilder;
use super::problem::StartError;
use crate::database::race::Races;
use crate::database::registration::seen;
use crate::database::sequence::{PartitionRows, sequence};
use crate::delivery::concurrent::{self, Signals};
use crate::delivery::processor::{Next, PartitionState, turn};
use crate::handler::states::States;
use crate::service::dispatcher::Dispatcher;
use crate::service::reconciler::heartbeats;
use crate::service::supervisor::ServiceContext;
use crate::service::vacuum::{self, DeletedUpTo};
use sea_orm::{DatabaseConnection, DbErr};
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tokio_util::task::TaskTracker;

/// Handlers may enqueue new messages, which are then delivered too. After so many rounds of that,
/// the drain fails: there is no end to it.
const ROUNDS: u32 = 1_000;

/// An outbox that does nothing by itself.
pub(crate) struct Passes {
    context: Arc<ServiceContext>,
    states: States,
    memory: Mutex<Memory>,
}

/// What the services remember from one pass to the next.
struct Memory {
    /// Of each queue.
    partition_rows: Vec<PartitionRows>,
    /// Of each consumer's partitions.
    partitions: Vec<Vec<PartitionState>>,
    deleted_up_to: DeletedUpTo,
}

impl Memory {
    fn of(context: &ServiceContext) -> Self {
        let fresh = |dispatcher: &Arc<Dispatcher>| {
            let batch_size = dispatcher.consumer.tuning.batch_size;
            let states = (0..dispatcher.partitions()).map(|_| PartitionState::new(batch_size));
            states.collect()
        };
        let dispatchers = context.queues.iter().flat_map(|served| &served.dispatchers);
        Self {
            partition_rows: context
                .queues
                .iter()
                .map(|_| PartitionRows::default())
                .collect(),
            partitions: dispatchers.map(fresh).collect(),
            deleted_up_to: DeletedUpTo::nothing(context),
        }
    }
}

impl OutboxBuilder {
    /// Checks and registers as `start()` does, and runs nothing.
    pub(crate) async fn into_passes(mut self) -> Result<Passes, StartError> {
        self.prepare().await?;
        let states = self.states.clone();
        let context = self.assemble(&TaskTracker::new());
        let memory = Mutex::new(Memory::of(&context));
        Ok(Passes {
            context,
            states,
            memory,
        })
    }
}

impl Passes {
    pub(crate) fn db(&self) -> &DatabaseConnection {
        &self.context.db
    }

    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Writes the heartbeat of the consumers, and does everything that is due.
    pub(crate) async fn run(&self) -> Result<(), DbErr> {
        for heartbeat in &heartbeats(&self.context) {
            seen(&self.context.db, heartbeat).await?;
        }
        self.pass().await
    }

    /// Numbers and delivers everything that is due, also what handlers enqueue meanwhile. When it
    /// returns, the database has every acknowledgement.
    pub(crate) async fn pass(&self) -> Result<(), DbErr> {
        let mut memory = self.memory.lock().await;
        self.sequence_all(&mut memory.partition_rows).await?;
        for _ in 0..ROUNDS {
            let queues = self.context.queues.iter();
            let dispatchers = queues.flat_map(|served| &served.dispatchers);
            for (dispatcher, states) in dispatchers.zip(&mut memory.partitions) {
                for (partition, state) in (0..).zip(states) {
                    work_on(dispatcher, partition, state).await?;
                }
            }
            if !self.sequence_all(&mut memory.partition_rows).await? {
                return Ok(());
            }
        }
        let endless = format!("handlers enqueued new messages {ROUNDS} times in a row");
        Err(DbErr::Custom(endless))
    }

    /// Deletes what every consumer has passed. Returns how many rows.
    pub(crate) async fn vacuum(&self) -> Result<i64, DbErr> {
        let deleted_up_to = &mut self.memory.lock().await.deleted_up_to;
        let mut deleted = 0;
        loop {
            let done = vacuum::run_once(&self.context, deleted_up_to).await?;
            deleted += done.rows;
            if !done.full_batch {
                return Ok(deleted);
            }
        }
    }

    /// Numbers what is committed. Returns whether there was anything.
    async fn sequence_all(&self, partition_rows: &mut [PartitionRows]) -> Result<bool, DbErr> {
        let context = &self.context;
        let (limit, asynchronous_commit) = (
            context.profile.sequencer.batch_size,
            context.asynchronous_commit,
        );
        let mut any = false;
        for (served, partition_rows) in context.queues.iter().zip(partition_rows) {
            let id = served.queue.queue_id();
            let connections = &context.connections;
            let mut races = Races::default();
            loop {
                match sequence(
                    connections,
                    id,
                    limit,
                    asynchronous_commit,
                    true,
                    partition_rows,
                )
                .await
                {
                    Ok(done) if done.taken == 0 => break,
                    Ok(_) => any = true,
                    Err(error) => races.again(error).await?,
                }
            }
        }
        Ok(any)
    }
}

/// Delivers what is due in a partition.
async fn work_on(
    dispatcher: &Dispatcher,
    partition: u32,
    state: &mut PartitionState,
) -> Result<(), DbErr> {
    let consumer = &dispatcher.consumer;
    let mut races = Races::default();
    let never = Notify::new();
    loop {
        let turned = if consumer.concurrency > 1 {
            let signals = Signals {
                woken: &never,
                progress: &never,
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
