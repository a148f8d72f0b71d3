//! Exactly once with the database: handlers' writes and the cursor's move are
//! one transaction, whose last statement checks the lease.
//!
//! On a failure the transaction is rolled back. The good prefix is run and committed again, and the
//! failing message goes on alone. Only alone is its failure believed: a handler that ignores a
//! database error makes the next one fail.
//!
//! There is no savepoint per message: a nested transaction that a handler keeps could release it
//! under our feet. On MySQL one savepoint spans the whole transaction. There a deadlock ends the
//! transaction, and if the handler does not say so, each later statement would commit by itself.
//! Releasing the savepoint fails then. Before the next message of a batch begins, the server is
//! asked whether the transaction is over.
//!
//! A nested transaction that a handler leaves open may take the writes of later messages along
//! when it is rolled back. If there is one at the end, all is rolled back, and each message has a
//! transaction of its own.
//!
//! The first transaction of a claim is in hand before the claim is made
//! ([`transaction`](super::transaction)).

mod run;

use self::run::{Chain, TransactionEnd, run};
use super::claim::{Claim, ClaimAnswer, ClaimEnd};
use super::consumer::Consumer;
use super::processor::{Next, PartitionState};
use super::quarantine::{self, Charge};
use super::settlement::{give_back_late, settle_aborted, settle_failure, settle_stopped};
use crate::database::cursor::Refuse;
use crate::database::transaction::begin_for_handlers;
use crate::handler::HandlerResult;
use sea_orm::{DatabaseTransaction, DbErr};
use std::ops::Range;

/// After so many commits in a row that lost a race, the message is charged: it may never win.
const LOST_RACES: u32 = 5;

/// Works on a claim. A suspect is charged before, on the connection of its handler.
pub(crate) async fn work(
    consumer: &Consumer,
    state: &mut PartitionState,
    mut claim: Claim,
    mut tx: Option<DatabaseTransaction>,
    next: NextClaim,
) -> Result<ClaimEnd, DbErr> {
    if quarantine::must_charge(&claim) {
        let charged = match quarantine::charge_in(consumer, &mut claim, tx.take()).await {
            Ok(Some(charged)) => charged,
            Ok(None) => return Ok(ClaimEnd::Settled(Next::Busy)),
            // No handler ran: no message is charged.
            Err(error) => {
                settle_stopped(consumer, &claim, 0, Vec::new()).await?;
                return Err(error);
            }
        };
        if claim.clock.is_half_over() {
            return give_back_late(consumer, &claim, Some(charged)).await;
        }
        tx = Some(charged);
    }
    Work::new(consumer, state, claim, next).run(tx).await
}

/// What the turn says of the claim after this one, which may be made in the same transaction.
#[derive(Clone, Copy)]
pub(crate) struct NextClaim {
    /// There is none: the turn ends.
    pub(crate) last: bool,
    /// Which suspects it leaves alone: none if the turn has the right to solitude.
    pub(crate) refuse: Refuse,
}

/// A claim whose messages are worked on, chunk by chunk, each in a transaction of its own.
struct Work<'a> {
    consumer: &'a Consumer,
    state: &'a mut PartitionState,
    claim: Claim,
    next: NextClaim,
    /// Whether there is a pause before the next claim.
    paced: bool,
    /// How many messages are claimed together with the commit.
    next_limit: u32,
    /// How many messages are committed.
    done: usize,
    chunk: ChunkSize,
}

/// How many messages share the next transaction.
struct ChunkSize {
    size: usize,
    /// Whether the message behind the next chunk failed, and goes alone.
    failed_is_next: bool,
    /// Whether each message goes alone from now on.
    one_by_one: bool,
}

impl ChunkSize {
    /// The good prefix goes again, and then the message that failed, alone.
    fn failed_after(&mut self, good: usize) {
        self.size = good.max(1);
        self.failed_is_next = good > 0;
    }

    /// Twice as many the next time, unless messages go alone.
    fn committed(&mut self) {
        let alone = self.failed_is_next || self.one_by_one;
        self.size = if alone { 1 } else { self.size * 2 };
        self.failed_is_next = false;
    }

    /// It is not known which of several messages did harm.
    fn go_one_by_one(&mut self) {
        self.size = 1;
        self.one_by_one = true;
    }
}

impl<'a> Work<'a> {
    fn new(
        consumer: &'a Consumer,
        state: &'a mut PartitionState,
        claim: Claim,
        next: NextClaim,
    ) -> Self {
        // The next claim is made in the same transaction as long as all goes well, unless there
        // is a pause before it, which must not be spent in a transaction.
        let paced = !consumer.tuning.active_interval.is_zero();
        let next_limit = if next.last || paced {
            0
        } else {
            state
                .limit
                .saturating_mul(2)
                .min(consumer.tuning.batch_size)
        };
        let chunk = ChunkSize {
            size: claim.messages.len(),
            failed_is_next: false,
            one_by_one: false,
        };
        Self {
            consumer,
            state,
            claim,
            next,
            paced,
            next_limit,
            done: 0,
            chunk,
        }
    }

    /// Works chunk by chunk until the claim is over.
    async fn run(mut self, mut tx: Option<DatabaseTransaction>) -> Result<ClaimEnd, DbErr> {
        loop {
            let total = self.claim.messages.len();
            let chunk = self.done..(self.done + self.chunk.size).min(total);
            let tx = self.begin_unless(tx.take()).await?;
            let end = self.run_chunk(tx, chunk.clone()).await?;
            if let Some(end) = self.after(chunk.len(), end).await? {
                return Ok(end);
            }
        }
    }

    /// The transaction in hand, or a new one.
    async fn begin_unless(
        &mut self,
        tx: Option<DatabaseTransaction>,
    ) -> Result<DatabaseTransaction, DbErr> {
        if let Some(tx) = tx {
            return Ok(tx);
        }
        match begin_for_handlers(&self.consumer.db).await {
            Ok(tx) => Ok(tx),
            // No handler ran: no message is charged.
            Err(error) => {
                self.give_back_rest().await?;
                Err(error)
            }
        }
    }

    /// The next claim is made in the same transaction if this is the whole claim.
    async fn run_chunk(
        &mut self,
        tx: DatabaseTransaction,
        chunk: Range<usize>,
    ) -> Result<TransactionEnd, DbErr> {
        let whole = chunk == (0..self.claim.messages.len());
        let chain = whole.then_some(Chain {
            limit: self.next_limit,
            row_version: self.state.row_version.as_ref(),
            refuse: self.next.refuse,
        });
        let alone = chunk.len() == 1;
        match run(self.consumer, &mut self.claim, tx, chunk, chain).await {
            Ok(TransactionEnd::Raced(error)) if self.state.lost_races >= LOST_RACES => {
                Ok(self.charge_for_races(&error, alone))
            }
            Ok(end) => Ok(end),
            Err(error) => {
                settle_aborted(self.consumer, &self.claim, self.done, &error).await?;
                Err(error)
            }
        }
    }

    /// How it goes on after a transaction of so many messages; `None` for the next chunk.
    async fn after(
        &mut self,
        messages: usize,
        end: TransactionEnd,
    ) -> Result<Option<ClaimEnd>, DbErr> {
        match end {
            TransactionEnd::Chained(answer) => Ok(Some(self.chained(answer))),
            TransactionEnd::Committed(count) => self.committed(count).await,
            TransactionEnd::Failed { after, .. } if messages > 1 => {
                self.failed_among_others(after, messages).await
            }
            TransactionEnd::Failed { result, .. } => self.failed_alone(result).await.map(Some),
            TransactionEnd::Unsure => {
                self.chunk.go_one_by_one();
                Ok(None)
            }
            TransactionEnd::Raced(error) => {
                self.state.lost_races += 1;
                settle_aborted(self.consumer, &self.claim, self.done, &error).await?;
                Err(error)
            }
            TransactionEnd::Stopped => self.give_back_rest().await.map(Some),
            TransactionEnd::Lost => Ok(Some(self.lost().await)),
            TransactionEnd::LeftOpen => {
                self.log("a handler left a nested transaction open: rolled back");
                Ok(Some(ClaimEnd::Settled(Next::Busy)))
            }
        }
    }

    /// Everything is committed, and the next claim is made.
    fn chained(&mut self, answer: ClaimAnswer) -> ClaimEnd {
        self.state.lost_races = 0;
        self.state.succeeded(self.consumer.tuning.batch_size);
        self.state.shrink_if_cut(&answer.claimed);
        if self.paced && !self.next.last {
            self.state.row_version = answer.claimed.row_version;
            return ClaimEnd::Settled(Next::Again);
        }
        ClaimEnd::Chained(answer)
    }

    /// A chunk is committed. The rest goes on while there is time.
    async fn committed(&mut self, count: usize) -> Result<Option<ClaimEnd>, DbErr> {
        self.state.lost_races = 0;
        self.done += count;
        if self.done == self.claim.messages.len() || self.claim.clock.is_half_over() {
            // The rest, if any, has a lease of its own.
            return self.give_back_rest().await.map(Some);
        }
        self.chunk.committed();
        Ok(None)
    }

    /// A chunk of several messages failed: `good` of them were fine before the one that failed.
    async fn failed_among_others(
        &mut self,
        good: usize,
        messages: usize,
    ) -> Result<Option<ClaimEnd>, DbErr> {
        if self.claim.clock.is_half_over() {
            let smaller = if good > 0 { good } else { messages / 2 };
            self.state.shrink_to(smaller);
            return self.give_back_rest().await.map(Some);
        }
        self.chunk.failed_after(good);
        Ok(None)
    }

    /// A message failed in a transaction of its own: this counts.
    async fn failed_alone(&mut self, result: HandlerResult) -> Result<ClaimEnd, DbErr> {
        let threshold = self.consumer.tuning.degradation_threshold;
        self.state.failed_after(self.done, threshold);
        let settled = settle_failure(self.consumer, &self.claim, self.done, Vec::new(), result);
        let settled = settled.await?;
        if matches!(settled, ClaimEnd::Settled(Next::Again)) {
            // It is a dead letter; its lost races do not count for the next message.
            self.state.lost_races = 0;
        }
        Ok(settled)
    }

    /// The lease was lost.
    async fn lost(&mut self) -> ClaimEnd {
        let charge = self.claim.charge;
        if let Some(seq) = charge.and_then(Charge::taken_back_without_lease) {
            quarantine::take_back(self.consumer, self.claim.partition_id, seq).await;
        }
        self.log("the lease was lost: rolled back");
        ClaimEnd::Settled(Next::Busy)
    }

    /// Gives back what is not committed. Nothing counts for it.
    async fn give_back_rest(&mut self) -> Result<ClaimEnd, DbErr> {
        settle_stopped(self.consumer, &self.claim, self.done, Vec::new()).await
    }

    /// A transaction that could not be committed once more. A message is charged for that if it is
    /// alone; several are split.
    fn charge_for_races(&self, error: &DbErr, alone: bool) -> TransactionEnd {
        if alone {
            tracing::warn!(
                queue = &*self.consumer.queue,
                partition = self.claim.partition,
                consumer = self.consumer.name,
                %error,
                "a handler's transaction lost a race more than {LOST_RACES} times in a row at its \
                 commit; from now on that counts as a failed attempt"
            );
        }
        let reason =
            format!("its transaction could not be committed more than {LOST_RACES} times: {error}");
        TransactionEnd::failed(HandlerResult::retry(reason))
    }

    fn log(&self, event: &str) {
        tracing::warn!(
            queue = &*self.consumer.queue,
            partition = self.claim.partition,
            consumer = self.consumer.name,
            "{event}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: usize) -> ChunkSize {
        ChunkSize {
            size,
            failed_is_next: false,
            one_by_one: false,
        }
    }

    #[test]
    fn after_the_good_prefix_the_message_that_failed_goes_alone() {
        let mut chunk = of(10);
        chunk.failed_after(4);
        assert_eq!(chunk.size, 4);
        chunk.committed();
        assert_eq!(chunk.size, 1, "the one that failed");
        chunk.committed();
        assert_eq!(chunk.size, 2, "the ones behind it");
    }

    #[test]
    fn if_the_first_message_failed_it_goes_alone_at_once() {
        let mut chunk = of(10);
        chunk.failed_after(0);
        assert_eq!(chunk.size, 1);
        chunk.committed();
        assert_eq!(chunk.size, 2);
    }

    #[test]
    fn once_messages_go_one_by_one_they_stay_so() {
        let mut chunk = of(10);
        chunk.go_one_by_one();
        chunk.committed();
        chunk.committed();
        assert_eq!(chunk.size, 1);
    }
}
