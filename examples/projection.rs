//! A read model that is never wrong: a transactional handler of batches keeps balances.
//! What it writes commits with the acknowledgement. So a payment counts
//! once, also when a batch fails half-way and is run again.

use outbox::prelude::*;
use outbox_examples::{connect, eventually, say};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel, Schema};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod balance {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "example_balance")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account: i64,
        pub cents: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[outbox_event(queue = "example.payments", partitions = 4, name = "payment.received", key = account)]
#[derive(Serialize, Deserialize)]
struct PaymentReceived {
    account: i64,
    cents: i64,
}

/// Whether the next batch fails after it has written everything.
#[derive(Clone)]
struct Trouble(Arc<AtomicBool>);

/// A batch of one partition: sums first, then one write for each account.
#[outbox_handler(mode = transactional, batch = 100, retry(base = "50ms", max = "50ms"))]
async fn add_up(
    payments: Vec<PaymentReceived>,
    State(Trouble(trouble)): State<Trouble>,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    let mut sums = BTreeMap::new();
    for payment in &payments {
        *sums.entry(payment.account).or_insert(0) += payment.cents;
    }
    for (account, cents) in sums {
        match balance::Entity::find_by_id(account).one(tx).await? {
            Some(balance) => {
                let sum = balance.cents + cents;
                let mut balance = balance.into_active_model();
                balance.cents = Set(sum);
                balance.update(tx).await?;
            }
            None => {
                let balance = balance::Model { account, cents };
                balance::Entity::insert(balance.into_active_model())
                    .exec_without_returning(tx)
                    .await?;
            }
        }
    }
    if trouble.swap(false, Ordering::SeqCst) {
        say(
            "failed",
            format!(
                "after {} payments; all of it is rolled back",
                payments.len()
            ),
        );
        return Err(HandlerError::retry("a cable was pulled"));
    }
    say(
        "added up",
        format!("{} payments in one transaction", payments.len()),
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let example = connect().await?;
    let db = &example.db;
    outbox::migrate(db).await?;
    db.execute_unprepared("DROP TABLE IF EXISTS example_balance")
        .await?;
    let create = Schema::new(db.get_database_backend()).create_table_from_entity(balance::Entity);
    db.execute(&create).await?;

    // Enqueued before the outbox starts, so that there are batches.
    let accounts = 1..=8;
    for cents in 1..=25 {
        let tx = db.begin().await?;
        let payments = accounts
            .clone()
            .map(|account| (account, PaymentReceived { account, cents }));
        PaymentReceived::enqueue_all(&tx, payments).await?;
        tx.commit().await?;
    }
    say("committed", "25 payments into each of 8 accounts");
    let running = Outbox::builder(db.clone())
        .profile(OutboxProfile::low_latency())
        .state(Trouble(Arc::new(AtomicBool::new(true))))
        .start()
        .await?;
    let right = 25 * 26 / 2; // 1 + 2 + … + 25
    eventually("eight balances", async || {
        let balances = balance::Entity::find().all(db).await.unwrap_or_default();
        balances.len() == 8 && balances.iter().all(|balance| balance.cents >= right)
    })
    .await?;
    running.stop().await;

    for balance in balance::Entity::find().all(db).await? {
        if balance.cents != right {
            return Err(format!("account {} has {}", balance.account, balance.cents).into());
        }
    }
    say(
        "checked",
        format!("every account has {right} cents: each payment counted once"),
    );
    Ok(())
}
