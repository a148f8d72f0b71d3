//! An event lives and dies with the transaction it was enqueued in.

use super::*;
use outbox::Slot;
use outbox_tests::every_engine;

#[every_engine]
async fn a_committed_message_is_there_with_its_key_and_slot(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    let id = OrderCreated::new(7)
        .enqueue(&tx, ("acme", 7))
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let queue = OrderCreated::QUEUE;
    let expected = Stored {
        id: id.get(),
        queue_id: queue.id(),
        slot: Slot::of_key(b"acme/7").get().cast_signed(),
        event_type: "order.created".to_owned(),
        key: b"acme/7".to_vec(),
        payload: serde_json::to_vec(&OrderCreated::new(7)).unwrap(),
        headers: None,
    };
    assert_eq!(stored(db).await, [expected]);
}

#[every_engine]
async fn a_rolled_back_message_is_not_there(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    OrderCreated::new(1).enqueue(&tx, 1).await.unwrap();
    OrderCreated::enqueue_all(&tx, [(2, OrderCreated::new(2)), (3, OrderCreated::new(3))])
        .await
        .unwrap();
    tx.rollback().await.unwrap();

    let dropped = db.connection().begin().await.unwrap();
    OrderCreated::new(4).emit(&dropped).await.unwrap();
    drop(dropped);

    assert_eq!((bodies(db).await, incoming(db).await), (0, 0));
}

#[every_engine]
async fn a_savepoint_rolled_back_takes_only_its_own(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    OrderCreated::new(1).emit(&tx).await.unwrap();
    let undone = tx.begin().await.unwrap();
    OrderCreated::new(2).emit(&undone).await.unwrap();
    undone.rollback().await.unwrap();
    let kept = tx.begin().await.unwrap();
    OrderCreated::new(3).emit(&kept).await.unwrap();
    kept.commit().await.unwrap();
    tx.commit().await.unwrap();

    let orders: Vec<i64> = stored(db).await.iter().map(Stored::order).collect();
    assert_eq!(orders, [1, 3]);
    assert_eq!(bodies(db).await, 2);
}

#[every_engine]
async fn a_bare_connection_commits_at_once(db: &TestDb) {
    let id = OrderCreated::new(1).emit(db.connection()).await.unwrap();
    assert_eq!(stored(db).await[0].id, id.get());
}

#[every_engine]
async fn functions_generic_over_the_connection_can_enqueue(db: &TestDb) {
    async fn place<C: ConnectionTrait>(conn: &C, order: i64) -> Result<(), sea_orm::DbErr> {
        OrderCreated::new(order).emit(conn).await?;
        Ok(())
    }
    place(db.connection(), 1).await.unwrap();
    let done: Result<(), sea_orm::TransactionError<sea_orm::DbErr>> = db
        .connection()
        .transaction(|tx| Box::pin(async move { place(tx, 2).await }))
        .await;
    done.unwrap();
    assert_eq!(incoming(db).await, 2);
}

#[every_engine]
async fn on_a_bare_connection_an_error_leaves_at_most_an_orphaned_body(db: &TestDb) {
    db.execute("ALTER TABLE outbox_incoming RENAME TO hidden")
        .await;
    let error = OrderCreated::new(1)
        .emit(db.connection())
        .await
        .unwrap_err();
    let list = [(1, OrderCreated::new(1)), (2, OrderCreated::new(2))];
    OrderCreated::enqueue_all(db.connection(), list)
        .await
        .unwrap_err();
    db.execute("ALTER TABLE hidden RENAME TO outbox_incoming")
        .await;

    assert_eq!(error.kind(), &outbox::EnqueueErrorKind::Database);
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(incoming(db).await, 0);
    assert!(bodies(db).await <= 3);
}

#[every_engine(empty)]
async fn an_error_of_the_database_names_queue_and_event(db: &TestDb) {
    let error = OrderCreated::new(1)
        .emit(db.connection())
        .await
        .unwrap_err();
    assert_eq!((error.queue(), error.event()), ("shop", "order.created"));
    let text = error.to_string();
    assert!(
        text.contains("`order.created`") && text.contains("`shop`"),
        "{text}"
    );
    let as_db_err = sea_orm::DbErr::from(error).to_string();
    assert!(
        as_db_err.contains("outbox_body"),
        "the cause is lost: {as_db_err}"
    );
}
