//! Whatever bytes come in come out again; what cannot is refused before a write.

use super::*;
use outbox::{EnqueueErrorKind, InvalidHeader, NewMessage, Queue, enqueue, enqueue_batch};
use outbox_tests::every_engine;

const RAW: Queue = Queue::of("raw", Partitions::of(8));
const LIMIT: usize = 64 * 1024;

async fn refused(db: &TestDb, message: NewMessage) -> EnqueueErrorKind {
    let error = enqueue(db.connection(), &RAW, message).await.unwrap_err();
    assert_eq!(bodies(db).await, 0, "refused, yet written: {error}");
    assert_eq!(error.queue(), "raw");
    error.kind().clone()
}

#[every_engine]
async fn payloads_keys_and_headers_round_trip(db: &TestDb) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let headers = [
        ("trace", "00-4bf9"),
        ("größe 🦀", "\"quoted\" \\ and\nlines"),
        ("nul", "a\0b"),
        ("empty", ""),
    ];
    let options = EnqueueOptions::new().headers(headers.into_iter().collect());
    let messages = [
        NewMessage::new("empty", "", ""),
        NewMessage::new("bytes", every_byte.clone(), every_byte.clone()),
        NewMessage::new("full", vec![0xff; 1024], vec![b'x'; LIMIT]),
        NewMessage::new("headers", "größe 🦀", "p").with(options),
        NewMessage::new("placed", 1, "p").to_partition(7),
    ];
    // One at a time and as a list: the statements differ.
    let mut ids = Vec::new();
    for message in messages.clone() {
        ids.push(enqueue(db.connection(), &RAW, message).await.unwrap());
    }
    ids.extend(
        enqueue_batch(db.connection(), &RAW, messages)
            .await
            .unwrap(),
    );

    let found = stored(db).await;
    assert!(found.iter().map(|m| m.id).eq(ids.iter().map(|id| id.get())));
    for half in found.chunks(5) {
        assert_eq!((&*half[0].key, &*half[0].payload), (&b""[..], &b""[..]));
        assert_eq!((&half[1].key, &half[1].payload), (&every_byte, &every_byte));
        assert_eq!((half[2].key.len(), half[2].payload.len()), (1024, LIMIT));
        let json = half[3].headers.as_ref().expect("headers");
        let decoded: std::collections::BTreeMap<String, String> =
            serde_json::from_str(json).expect("JSON");
        assert!(
            decoded
                .iter()
                .map(|(n, v)| (&**n, &**v))
                .eq(std::collections::BTreeMap::from(headers))
        );
        assert_eq!(half[4].slot, 16_384 + 7);
        assert!([0, 1, 2, 4].iter().all(|&i| half[i].headers.is_none()));
    }
}

#[every_engine]
async fn an_invalid_message_is_refused_and_nothing_is_written(db: &TestDb) {
    let message = |payload: usize| NewMessage::new("t", 1, vec![0; payload]);
    assert_eq!(
        refused(db, message(LIMIT + 1)).await,
        EnqueueErrorKind::PayloadTooLarge {
            size: LIMIT + 1,
            limit: LIMIT
        }
    );
    assert_eq!(
        refused(db, NewMessage::new("t", vec![0; 1025], "")).await,
        EnqueueErrorKind::KeyTooLong {
            size: 1025,
            limit: 1024
        }
    );
    assert_eq!(
        refused(db, message(1).to_partition(8)).await,
        EnqueueErrorKind::PartitionOutOfRange {
            partition: 8,
            partitions: 8
        }
    );
    for name in ["", "a b", "größe", &"x".repeat(129)] {
        let kind = refused(db, NewMessage::new(name.to_owned(), 1, "")).await;
        assert!(matches!(kind, EnqueueErrorKind::InvalidName(_)), "{kind}");
    }
    let with = |options| message(1).with(options);
    let many = EnqueueOptions::new().headers((0..65).map(|i| (i.to_string(), "v")).collect());
    let big =
        EnqueueOptions::new().headers((0..5).map(|i| (i.to_string(), "v".repeat(4000))).collect());
    for (options, expected) in [
        (
            EnqueueOptions::new().header("", "v"),
            InvalidHeader::Name {
                name: String::new(),
            },
        ),
        (
            EnqueueOptions::new().header("a\n", "v"),
            InvalidHeader::Name { name: "a\n".into() },
        ),
        (
            EnqueueOptions::new().header("a", "v".repeat(4097)),
            InvalidHeader::Value {
                name: "a".into(),
                size: 4097,
            },
        ),
        (many, InvalidHeader::TooMany { count: 65 }),
        (big, InvalidHeader::TooLarge { size: 20_036 }),
    ] {
        assert_eq!(
            refused(db, with(options)).await,
            EnqueueErrorKind::InvalidHeader(expected)
        );
    }
}

#[every_engine]
async fn a_larger_payload_needs_a_larger_limit(db: &TestDb) {
    let large = NewMessage::new("large", 1, vec![b'x'; 1 << 20]).max_payload(1 << 20);
    enqueue(db.connection(), &RAW, large).await.unwrap();
    assert_eq!(stored(db).await[0].payload.len(), 1 << 20);
}

#[every_engine]
async fn an_explicit_partition_is_checked_and_used(db: &TestDb) {
    for partition in 0..4 {
        OrderCreated::new(1)
            .enqueue_to(db.connection(), partition, 1)
            .await
            .unwrap();
    }
    let error = OrderCreated::new(1)
        .enqueue_to(db.connection(), 4, 1)
        .await
        .unwrap_err();
    assert_eq!(
        error.kind(),
        &EnqueueErrorKind::PartitionOutOfRange {
            partition: 4,
            partitions: 4
        }
    );
    let found: Vec<i16> = stored(db).await.iter().map(|m| m.slot).collect();
    assert_eq!(found, [16_384, 16_385, 16_386, 16_387]);
}

#[every_engine]
async fn options_carry_headers(db: &TestDb) {
    let options = EnqueueOptions::new().header("traceparent", "00-4bf9-01");
    OrderCreated::new(1)
        .enqueue_with(db.connection(), 1, options)
        .await
        .unwrap();
    assert_eq!(
        stored(db).await[0].headers.as_deref(),
        Some(r#"{"traceparent":"00-4bf9-01"}"#)
    );
}

#[every_engine]
async fn a_reserved_header_is_refused_by_name_and_nothing_is_written(db: &TestDb) {
    let reserved = |name: &str| {
        EnqueueOptions::new()
            .header("tenant", "acme")
            .header(name, "v")
    };
    for name in [
        "content-type",
        "causation-id",
        "Version",
        "ce-id",
        "outbox-requeued-from",
    ] {
        let alone = OrderCreated::new(1).enqueue_with(db.connection(), 1, reserved(name));
        let alone = alone.await.unwrap_err();
        // The list's first message is fine: it must not be written either.
        let list = [
            NewMessage::new("fine", 1, "p"),
            NewMessage::new("marked", 1, "p").with(reserved(name)),
        ];
        let listed = enqueue_batch(db.connection(), &RAW, list)
            .await
            .unwrap_err();
        assert_eq!(listed.index(), Some(1));
        for (error, queue, event) in [(alone, "shop", "order.created"), (listed, "raw", "marked")] {
            let expected = InvalidHeader::Reserved {
                name: name.to_owned(),
            };
            assert_eq!(error.kind(), &EnqueueErrorKind::InvalidHeader(expected));
            let text = error.to_string();
            for part in [queue, event, name, &format!("x-{name}")] {
                assert!(text.contains(&format!("`{part}`")), "{part}: {text}");
            }
        }
        assert_eq!((bodies(db).await, incoming(db).await), (0, 0), "{name}");
    }
}

#[every_engine]
async fn headers_with_a_fixed_meaning_may_be_set(db: &TestDb) {
    let options = ["correlation-id", "traceparent", "tracestate"]
        .into_iter()
        .fold(EnqueueOptions::new(), |options, name| {
            options.header(name, "v")
        });
    OrderCreated::new(1)
        .enqueue_with(db.connection(), 1, options.clone())
        .await
        .unwrap();
    let message = NewMessage::new("t", 1, "p").with(options);
    enqueue_batch(db.connection(), &RAW, [message])
        .await
        .unwrap();
    let expected = r#"{"correlation-id":"v","traceparent":"v","tracestate":"v"}"#;
    let found = stored(db).await;
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|message| message.headers.as_deref() == Some(expected))
    );
}

#[test]
fn secrets_are_not_in_debug_output() {
    let options = EnqueueOptions::new().header("auth", "s3cret");
    let message = NewMessage::new("t", "k3y", "p4yload").with(options.clone());
    let shown = format!("{message:?} {options:?}");
    assert!(shown.contains("auth"));
    for secret in ["s3cret", "k3y", "p4yload"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// An event that JSON cannot express.
#[outbox_event(queue = "shop", partitions = 4)]
#[derive(Serialize, Deserialize)]
struct Unencodable(#[serde(serialize_with = "fail")] i64);

fn fail<S: serde::Serializer>(_: &i64, _: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("no words for it"))
}

#[tokio::test]
async fn an_event_that_cannot_be_encoded_is_an_error_with_its_cause() {
    let nowhere = DatabaseConnection::default();
    let error = Unencodable(1).enqueue(&nowhere, 1).await.unwrap_err();
    assert_eq!(error.kind(), &EnqueueErrorKind::Encode);
    let cause = std::error::Error::source(&error).expect("a cause");
    assert!(cause.to_string().contains("no words for it"), "{cause}");
}
