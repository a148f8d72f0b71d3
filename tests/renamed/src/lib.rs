//! Events of a service that knows the outbox crate as `bus`.

use bus::prelude::*;

bus::queue!(pub Orders = "orders", partitions = 4, crate = bus);

/// An order was placed.
#[outbox_event(queue = Orders, name = "order.created", key = order_id, crate = bus)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    /// Which order.
    pub order_id: i64,
}

/// An order was taken back.
#[derive(Debug, Serialize, Deserialize, OutboxEvent)]
#[outbox(queue = "returns", partitions = 2, crate = bus)]
pub struct OrderReturned {
    /// Which order.
    pub order_id: i64,
}

/// Ships an order.
#[outbox_handler(mode = leased, crate = bus)]
pub async fn ship(_: OrderCreated, _: &Ctx) -> Result<(), HandlerError> {
    Ok(())
}

/// Takes orders back.
#[outbox_handler(mode = transactional, consumer = "ledger", crate = bus)]
pub async fn take_back(events: Vec<OrderReturned>, tx: &DatabaseTransaction) -> HandlerResult {
    for event in events {
        if let Err(error) = event.enqueue_to(tx, 0, event.order_id).await {
            return HandlerResult::retry(error);
        }
    }
    HandlerResult::Success
}

#[cfg(test)]
mod tests {
    use super::*;
    use bus::sea_orm::Database;

    #[tokio::test]
    async fn events_of_a_renamed_crate_are_enqueued() -> Result<(), Box<dyn std::error::Error>> {
        let db = Database::connect("sqlite::memory:").await?;
        bus::migrate(&db).await?;

        let tx = db.begin().await?;
        let created = OrderCreated { order_id: 7 };
        let mut ids = vec![created.emit(&tx).await?, created.enqueue(&tx, "k").await?];
        let returned = OrderReturned { order_id: 7 };
        ids.extend(OrderReturned::enqueue_all(&tx, [(1, &returned), (2, &returned)]).await?);
        ids.push(returned.enqueue_to(&tx, 1, ("acme", 7)).await?);
        let options = EnqueueOptions::new().header("traceparent", "00-4bf9-01");
        ids.push(returned.enqueue_with(&tx, 7, options).await?);
        tx.commit().await?;

        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        Ok(())
    }

    #[test]
    fn events_of_a_renamed_crate_are_found() {
        let found = |name| bus::events().find(|event| event.name == name);
        let created = found("order.created").expect("it is registered");
        assert_eq!(created.queue, <Orders as bus::QueueType>::QUEUE);
        assert_eq!(created.rust_type, "outbox_tests_renamed::OrderCreated");
        assert_eq!(created.file, file!());
        assert_eq!(created.line, 8);
        let returned = found("OrderReturned").expect("it is registered");
        assert_eq!(returned.queue.partitions().count(), 2);
    }

    #[test]
    fn handlers_of_a_renamed_crate_are_found() {
        bus::testing::assert_valid_registry();
        let registry = bus::registry();
        let names: Vec<_> = registry
            .handlers()
            .iter()
            .map(|handler| handler.name)
            .collect();
        assert_eq!(
            names,
            [
                "outbox_tests_renamed::ship",
                "outbox_tests_renamed::take_back"
            ]
        );
        assert_eq!(
            bus::handlers![ship, take_back].map(|handler| handler.line),
            [24, 30]
        );
    }
}
