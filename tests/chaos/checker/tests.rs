//! A history that is good, and each way to spoil it.

use super::*;
use crate::history::{Effect, Letter};

/// Two events of one order and one of a parcel, all delivered.
fn good() -> History {
    let mut history = History::default();
    for (mark, queue, key, n) in [
        (1, "orders", "orders-1", 1),
        (2, "orders", "orders-1", 2),
        (3, "parcels", "parcels-1", 1),
    ] {
        history.committed.push(Event {
            mark,
            queue: queue.to_owned(),
            key: key.to_owned(),
            n,
            message_id: mark + 100,
        });
        history.confirmed.push(mark);
        for consumer in CONSUMERS.iter().filter(|c| c.queue.name() == queue) {
            match consumer.mode {
                Mode::Leased => {
                    history.begun.push(delivery(consumer.name, mark));
                    history.done.push(delivery(consumer.name, mark));
                }
                Mode::Transactional => history.effects.push(effect(consumer.name, mark)),
            }
        }
    }
    history
}

fn delivery(consumer: &str, mark: i64) -> Delivery {
    Delivery {
        at: mark.unsigned_abs(),
        consumer: consumer.to_owned(),
        mark,
        message_id: mark + 100,
    }
}

fn effect(consumer: &str, mark: i64) -> Effect {
    Effect {
        consumer: consumer.to_owned(),
        mark,
        message_id: mark + 100,
    }
}

fn letter(consumer: &str, mark: i64) -> Letter {
    Letter {
        consumer: consumer.to_owned(),
        mark: Some(mark),
        message_id: mark + 100,
        reason: "no".to_owned(),
    }
}

/// The one promise that a history breaks.
fn broken(spoil: impl FnOnce(&mut History)) -> Option<Promise> {
    let mut history = good();
    spoil(&mut history);
    let verdict = judge(&history);
    assert!(verdict.broken.len() < 2, "{verdict}");
    assert_eq!(verdict.is_good(), verdict.broken.is_empty());
    verdict.broken.into_keys().next()
}

#[test]
fn what_was_promised_is_good() {
    assert_eq!(broken(|_| {}), None);
}

#[test]
fn a_redelivery_is_no_harm() {
    let spoil = |history: &mut History| {
        let again = Delivery {
            at: 9,
            ..delivery("mailer", 1)
        };
        history.begun.push(again.clone());
        history.done.push(again);
    };
    assert_eq!(broken(spoil), None);
}

#[test]
fn a_dead_letter_with_a_reason_stands_for_a_delivery() {
    let spoil = |history: &mut History| {
        history
            .done
            .retain(|d| (&*d.consumer, d.mark) != ("mailer", 1));
        history.letters.push(letter("mailer", 1));
        history.effects.retain(|e| e.consumer != "stock");
        history.letters.push(letter("stock", 3));
    };
    assert_eq!(broken(spoil), None);
}

#[test]
fn an_event_that_never_arrives_is_lost() {
    let leased = |history: &mut History| {
        history
            .done
            .retain(|d| (&*d.consumer, d.mark) != ("feed", 2));
    };
    assert_eq!(broken(leased), Some(Promise::NothingLost));
    let transactional = |history: &mut History| {
        history.effects.retain(|e| e.consumer != "stock");
    };
    assert_eq!(broken(transactional), Some(Promise::NothingLost));
    let without_reason = |history: &mut History| {
        transactional(history);
        history.letters.push(Letter {
            reason: String::new(),
            ..letter("stock", 3)
        });
    };
    assert_eq!(broken(without_reason), Some(Promise::NothingLost));
    let confirmed = |history: &mut History| history.confirmed.push(77);
    assert_eq!(broken(confirmed), Some(Promise::NothingLost));
}

#[test]
fn what_nobody_committed_is_invented() {
    let delivered = |history: &mut History| history.begun.push(delivery("mailer", 77));
    assert_eq!(broken(delivered), Some(Promise::NothingInvented));
    let booked = |history: &mut History| history.effects.push(effect("ledger", 77));
    assert_eq!(broken(booked), Some(Promise::NothingInvented));
    let buried = |history: &mut History| history.letters.push(letter("mailer", 77));
    assert_eq!(broken(buried), Some(Promise::NothingInvented));
    let renamed = |history: &mut History| history.begun[0].message_id = 1;
    assert_eq!(broken(renamed), Some(Promise::NothingInvented));
    let strayed = |history: &mut History| history.begun.push(delivery("tracker", 1));
    assert_eq!(broken(strayed), Some(Promise::NothingInvented));
    let buried_twice = |history: &mut History| {
        history
            .letters
            .extend([letter("mailer", 1), letter("mailer", 1)]);
    };
    assert_eq!(broken(buried_twice), Some(Promise::NothingInvented));
}

#[test]
fn an_effect_is_once_or_buried() {
    let twice = |history: &mut History| history.effects.push(effect("stock", 3));
    assert_eq!(broken(twice), Some(Promise::LedgerExact));
    let and_buried = |history: &mut History| history.letters.push(letter("stock", 3));
    assert_eq!(broken(and_buried), Some(Promise::LedgerExact));
}

#[test]
fn first_deliveries_are_in_the_order_of_commits() {
    let leased = |history: &mut History| {
        let first = |d: &&mut Delivery| (&*d.consumer, d.mark) == ("feed", 1);
        history.begun.iter_mut().find(first).unwrap().at = 9;
    };
    assert_eq!(broken(leased), Some(Promise::InOrder));
    let transactional = |history: &mut History| history.effects.reverse();
    assert_eq!(broken(transactional), Some(Promise::InOrder));
}

#[test]
fn leases_and_leftovers_are_reported() {
    let lease = |history: &mut History| history.lease.push("an epoch went back".to_owned());
    assert_eq!(broken(lease), Some(Promise::LeaseRespected));
    let left = |history: &mut History| history.left.push("3 rows".to_owned());
    assert_eq!(broken(left), Some(Promise::NothingLeft));
}
