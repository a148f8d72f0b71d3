//! Slots and ids are in users' databases, and other languages compute them too. If a test here
//! fails, put the code back.

use outbox_runtime::{Partitions, Queue, Slot, queue_id};
use outbox_tests::{TestDb, mysql, postgres};
use serde::Deserialize;

/// Made by another program.
#[derive(Deserialize)]
struct Golden {
    keys: Vec<Key>,
    queues: Vec<Named>,
}

#[derive(Deserialize)]
struct Key {
    hex: String,
    slot: u16,
}

/// The id is text: not every language has integers of 64 bits in JSON.
#[derive(Deserialize)]
struct Named {
    name: String,
    id: String,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/ids.json")).expect("tests/golden/ids.json")
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = (0..hex.len()).step_by(2);
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    digits.map(byte).collect()
}

#[test]
fn the_slot_of_a_key_never_changes() {
    for key in golden().keys {
        let slot = Slot::of_key(&bytes(&key.hex));
        assert_eq!(slot.get(), key.slot, "{}", key.hex);
        for count in [1, 4, 64] {
            let queue = Queue::of("any", Partitions::of(count));
            let partition = u32::from(key.slot) % count;
            assert_eq!(queue.partition_of_key(&bytes(&key.hex)), partition);
        }
    }
}

#[test]
fn the_id_of_a_queue_never_changes() {
    for queue in golden().queues {
        let id: i64 = queue.id.parse().expect("a number");
        assert_eq!(queue_id(&queue.name), id, "{}", queue.name);
        let found = Queue::try_of(queue.name, Partitions::of(4)).expect("a name");
        assert_eq!(found.partition_id(3), Some(id + 3));
        assert_eq!(found.partition_id(4), None);
    }
}

/// Asks the server for each slot and id. `slot` and `id` are its SQL, with `@` for the hexadecimal
/// digits of the key and for the name.
async fn a_server_agrees(db: &TestDb, slot: &str, id: &str) {
    for key in golden().keys {
        let found = db.number(&slot.replace('@', &key.hex)).await;
        assert_eq!(found, i64::from(key.slot), "{}", key.hex);
    }
    for queue in golden().queues {
        let found = db.number(&id.replace('@', &queue.name)).await;
        assert_eq!(found.to_string(), queue.id, "{}", queue.name);
    }
}

#[postgres(empty)]
async fn postgres_computes_the_same_slots_and_ids(db: &TestDb) {
    a_server_agrees(
        db,
        "SELECT ((get_byte(sha256(k), 0) | (get_byte(sha256(k), 1) << 8)) & 16383)::bigint \
         FROM (SELECT decode('@', 'hex') AS k) AS key",
        "SELECT (('x' || left(encode(sha256('@'), 'hex'), 13))::bit(52)::bigint >> 1) << 12",
    )
    .await;
}

#[mysql(empty)]
async fn mysql_computes_the_same_slots_and_ids(db: &TestDb) {
    a_server_agrees(
        db,
        "SELECT CAST((CONV(SUBSTR(h, 1, 2), 16, 10) | CONV(SUBSTR(h, 3, 2), 16, 10) << 8) \
            & 16383 AS SIGNED) FROM (SELECT SHA2(UNHEX('@'), 256) AS h) AS hash",
        "SELECT CAST(CAST(CONV(LEFT(SHA2('@', 256), 13), 16, 10) AS UNSIGNED) DIV 2 * 4096 \
            AS SIGNED)",
    )
    .await;
}
