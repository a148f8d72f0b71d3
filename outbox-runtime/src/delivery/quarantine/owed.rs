//! Charges that are on record although they should not be, and are still to be taken back.

use super::super::consumer::Consumer;
use crate::database::attempts;
use crate::database::errors::{ErrorClass, classify};
use crate::database::transaction::begin;
use crate::queue::PartitionId;
use sea_orm::DbErr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A payment that lost a race is tried again so often at once.
const RACES: u32 = 5;
/// The pause before the first of those tries; each later one is twice as long.
const RACE_PAUSE: Duration = Duration::from_millis(5);

/// What this process owes the messages of a consumer, whichever turn or session is next. A partition
/// has few debts: nothing is claimed from it before they are paid.
#[derive(Default)]
pub(crate) struct Owed(Mutex<Vec<(PartitionId, i64)>>);

impl Owed {
    /// Whether a message of a partition has a charge that is to be taken back.
    pub(crate) fn any(&self, partition_id: PartitionId) -> bool {
        self.first(partition_id).is_some()
    }

    fn first(&self, partition_id: PartitionId) -> Option<i64> {
        let debts = self.lock();
        let of_partition = debts.iter().find(|(of, _)| *of == partition_id);
        of_partition.map(|(_, seq)| *seq)
    }

    fn add(&self, partition_id: PartitionId, seq: i64) {
        self.lock().push((partition_id, seq));
    }

    fn remove(&self, partition_id: PartitionId, seq: i64) {
        let mut debts = self.lock();
        if let Some(paid) = debts.iter().position(|debt| *debt == (partition_id, seq)) {
            debts.swap_remove(paid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PartitionId, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers that a charge is on record which must be taken back. Only for a charge that is surely
/// there: taking back another would forgive the message a death that it caused.
pub(crate) fn owe(consumer: &Consumer, partition_id: PartitionId, seq: i64) {
    consumer.owed.add(partition_id, seq);
}

/// Takes a charge back without a lease. If the database does not do it now, it is owed.
pub(crate) async fn take_back(consumer: &Consumer, partition_id: PartitionId, seq: i64) {
    owe(consumer, partition_id, seq);
    if let Err(error) = pay(consumer, partition_id).await {
        tracing::debug!(
            queue = &*consumer.queue,
            consumer = consumer.name,
            sequence = seq,
            %error,
            "a charge could not be taken back yet"
        );
    }
}

/// Takes back every charge that is owed to messages of a partition. Before anything is claimed from
/// it: a claim looks at what is on record.
pub(crate) async fn pay(consumer: &Consumer, partition_id: PartitionId) -> Result<(), DbErr> {
    let (mut races, mut pause) = (0, RACE_PAUSE);
    while let Some(seq) = consumer.owed.first(partition_id) {
        match pay_once(consumer, partition_id, seq).await {
            Ok(()) => consumer.owed.remove(partition_id, seq),
            Err(error) if races < RACES && classify(&error) == ErrorClass::Race => {
                races += 1;
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes one charge back, in one transaction. After an error it is not taken back.
async fn pay_once(consumer: &Consumer, partition_id: PartitionId, seq: i64) -> Result<(), DbErr> {
    let _permit = consumer.statements.acquire().await;
    let tx = begin(&consumer.db).await?;
    attempts::take_back(&tx, partition_id, &consumer.name, seq).await?;
    match tx.commit().await {
        // It may be taken back: a second time could take back a death that the message caused.
        Err(error) if may_be_done(&error) => {
            tracing::warn!(
                queue = &*consumer.queue,
                consumer = consumer.name,
                sequence = seq,
                %error,
                "a message may stay charged with a death that it did not cause"
            );
            Ok(())
        }
        committed => committed,
    }
}

/// Whether a transaction that ended in this error may be committed all the same: its answer was
/// lost. It is not if there was no connection for it, or if the database refused it.
pub(crate) fn may_be_done(error: &DbErr) -> bool {
    let no_connection = matches!(error, DbErr::Conn(_) | DbErr::ConnectionAcquire(_));
    !no_connection && classify(error) == ErrorClass::Connection
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueId;
    use sea_orm::{ConnAcquireErr, RuntimeErr};

    #[test]
    fn a_debt_is_of_one_partition_and_is_paid_once() {
        let owed = Owed::default();
        let [one, other] = [0, 1].map(|number| QueueId::of("orders").partition(number));
        owed.add(one, 7);
        owed.add(one, 7);
        assert_eq!((owed.first(one), owed.any(other)), (Some(7), false));
        owed.remove(one, 7);
        assert!(owed.any(one), "the other one");
        owed.remove(one, 7);
        assert!(!owed.any(one));
    }

    #[test]
    fn without_a_connection_nothing_is_done() {
        let none = DbErr::ConnectionAcquire(ConnAcquireErr::Timeout);
        assert!(!may_be_done(&none));
        let refused = DbErr::Exec(RuntimeErr::Internal("refused".into()));
        assert!(!may_be_done(&refused));
    }
}
