use outbox::prelude::*;

/// Before everything.
#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct First {
    pub order_id: i64,
}

/// After everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[outbox_event(partitions = 4, queue = "orders")]
pub struct Last {
    pub order_id: i64,
}

/// In between, with a trailing comma.
#[derive(Debug)]
#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct Between {
    #[serde(default)]
    pub order_id: i64,
}

fn main() {
    assert_eq!(First::QUEUE, Last::QUEUE);
    assert_eq!(
        format!("{:?}", Between { order_id: 7 }),
        "Between { order_id: 7 }"
    );
}
