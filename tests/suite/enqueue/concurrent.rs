//! Many producers at once.

use super::*;
use futures_util::future::join_all;
use outbox_tests::{every_engine, postgres};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// One producer's transactions; returns what it committed, by id.
async fn produce(db: DatabaseConnection, producer: i64) -> BTreeMap<i64, i64> {
    let mut random = StdRng::seed_from_u64(producer.cast_unsigned());
    let mut committed = BTreeMap::new();
    for round in 0..25 {
        let mut enqueued = BTreeMap::new();
        let tx = db.begin().await.expect("begin");
        for i in 0..random.random_range(1..4) {
            let order = producer * 10_000 + round * 10 + i;
            let id = OrderCreated::new(order).emit(&tx).await.expect("enqueue");
            enqueued.insert(id.get(), order);
        }
        if random.random_bool(0.5) {
            let list = (5..8).map(|i| producer * 10_000 + round * 10 + i);
            let list: Vec<_> = list
                .map(|order| (order, OrderCreated::new(order)))
                .collect();
            let ids = OrderCreated::enqueue_all(&tx, list.iter().map(|(k, e)| (k, e)));
            for (id, (order, _)) in ids.await.expect("enqueue_all").iter().zip(&list) {
                enqueued.insert(id.get(), *order);
            }
        }
        if random.random_bool(0.7) {
            tx.commit().await.expect("commit");
            committed.append(&mut enqueued);
        } else {
            tx.rollback().await.expect("rollback");
        }
    }
    committed
}

#[every_engine]
async fn sixteen_producers_leave_exactly_what_they_committed(db: &TestDb) {
    let producers =
        (0..16).map(|producer| tokio::spawn(produce(db.connection().clone(), producer)));
    let mut expected = BTreeMap::new();
    for committed in join_all(producers).await {
        expected.append(&mut committed.unwrap());
    }
    let found: BTreeMap<i64, i64> = stored(db).await.iter().map(|m| (m.id, m.order())).collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected);
    assert_eq!(bodies(db).await, i64::try_from(expected.len()).unwrap());
}

#[every_engine]
async fn over_a_pool_every_id_names_its_own_event(db: &TestDb) {
    let tasks = (0..16_i64).map(|task| {
        let pool = db.connection().clone();
        tokio::spawn(async move {
            let mut written = Vec::new();
            for round in 0..10 {
                let order = task * 1_000 + round * 10;
                let id = OrderCreated::new(order).emit(&pool).await.unwrap();
                written.push((id.get(), order));
                let list = (1..4).map(|i| (order + i, OrderCreated::new(order + i)));
                let ids = OrderCreated::enqueue_all(&pool, list).await.unwrap();
                written.extend(
                    ids.iter()
                        .zip(order + 1..)
                        .map(|(id, order)| (id.get(), order)),
                );
            }
            written
        })
    });
    let mut expected = Vec::new();
    for written in join_all(tasks).await {
        expected.append(&mut written.unwrap());
    }
    expected.sort_unstable();
    let found: Vec<(i64, i64)> = stored(db).await.iter().map(|m| (m.id, m.order())).collect();
    assert_eq!(found, expected);
}

/// The sequencer's proof that no lower id can still appear rests on this: the
/// transaction has its id before it draws one for a body.
#[postgres]
async fn on_postgres_the_transaction_id_comes_before_the_body_id(db: &TestDb) {
    db.execute(
        "CREATE SEQUENCE ids; \
         CREATE FUNCTION draw() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN \
             IF pg_current_xact_id_if_assigned() IS NULL THEN \
                 RAISE EXCEPTION 'an id was drawn before the transaction had its own'; \
             END IF; \
             RETURN nextval('ids'); \
         END $$; \
         ALTER TABLE outbox_body ALTER id DROP IDENTITY; \
         ALTER TABLE outbox_body ALTER id SET DEFAULT draw()",
    )
    .await;
    let list = || (0..20).map(|order| (order, OrderCreated::new(order)));
    // Bare connections: nothing else gives the transaction its id.
    OrderCreated::new(1).emit(db.connection()).await.unwrap();
    OrderCreated::enqueue_all(db.connection(), list())
        .await
        .unwrap();
    let many = (0..10_001).map(|order| (order, OrderCreated::new(order)));
    OrderCreated::enqueue_all(db.connection(), many)
        .await
        .unwrap();
    assert_eq!(incoming(db).await, 10_022);
}
