//! Generated histories: messages and their fates, and the events that happen meanwhile.

use outbox::Partitions;
use proptest::prelude::*;

/// What its handler makes of a message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fate {
    /// So many failures, then success.
    Fails(u32),
    /// A panic, then success.
    Panics,
    /// A dead letter at once.
    Rejected,
    /// A dead letter after all attempts.
    Hopeless,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedMessage {
    pub(super) key: u8,
    /// How many milliseconds its handler takes.
    pub(super) takes: u64,
    pub(super) fate: Fate,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    None,
    /// An orderly stop, and a start with so many keys at a time.
    Restart(u32),
    /// The process dies; the next one has so many keys at a time.
    Crash(u32),
    /// Another process has the leases for so many milliseconds.
    Steal(u64),
    Pause(u64),
}

/// Messages are committed, time passes, something happens.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) messages: Vec<PlannedMessage>,
    pub(super) after: u64,
    pub(super) event: Event,
}

#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) partitions: Partitions,
    pub(super) concurrency: u32,
    pub(super) window: u32,
    pub(super) batch: u32,
    pub(super) steps: Vec<Step>,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Fails(0)),
        3 => (1..=3_u32).prop_map(Fate::Fails),
        1 => Just(Fate::Panics),
        1 => Just(Fate::Rejected),
        1 => Just(Fate::Hopeless),
    ]
}

fn planned_message() -> impl Strategy<Value = PlannedMessage> {
    let takes = prop_oneof![2 => Just(0), 3 => 1..5_u64, 1 => 5..25_u64];
    (0..6_u8, takes, fate()).prop_map(|(key, takes, fate)| PlannedMessage { key, takes, fate })
}

/// Once in a while one at a time, as other consumers do.
fn concurrency() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(1), 4 => 2..=8_u32]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::None),
        2 => concurrency().prop_map(Event::Restart),
        2 => concurrency().prop_map(Event::Crash),
        2 => (0..12_u64).prop_map(Event::Steal),
        1 => (0..12_u64).prop_map(Event::Pause),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let messages = proptest::collection::vec(planned_message(), 0..24);
    (messages, 0..25_u64, event()).prop_map(|(messages, after, event)| Step {
        messages,
        after,
        event,
    })
}

pub(super) fn history() -> impl Strategy<Value = History> {
    let partitions = prop_oneof![3 => Just(Partitions::of(1)), 1 => Just(Partitions::of(2))];
    let window = prop_oneof![1 => 1..8_u32, 3 => 8..60_u32];
    let steps = proptest::collection::vec(step(), 1..5);
    (partitions, concurrency(), window, 1..20_u32, steps).prop_map(
        |(partitions, concurrency, window, batch, steps)| History {
            partitions,
            concurrency,
            window,
            batch,
            steps,
        },
    )
}
