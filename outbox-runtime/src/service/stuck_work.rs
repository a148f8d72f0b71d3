//! The report of stuck work: once a minute it logs what a person should hear of before it hurts.

use super::supervisor::ServiceContext;
use crate::operate::stats::{OutboxStats, read};
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(60);

/// A consumer is reported if no process that handles all its types wrote a heartbeat for so long.
const SILENT: Duration = Duration::from_secs(120);

/// Logs stuck work until the outbox stops.
pub(crate) async fn run(context: Arc<ServiceContext>) {
    let mut supervisor = context.supervisor("the report of stuck work", &context.profile.vacuum);
    while !context.stopping() {
        context.pause(EVERY).await;
        if context.stopping() {
            return;
        }
        if let Some(stats) = supervisor.run(read(&context.db)).await {
            report(&stats);
        }
    }
}

fn report(stats: &OutboxStats) {
    for rows in &stats.unregistered {
        tracing::warn!(
            queue_id = rows.queue_id,
            partition = rows.partition,
            messages = rows.count,
            "messages wait that no process takes, because no process registered their queue, or \
             because it does not have the partition that was chosen for them; they are kept. Was \
             their consumer never started, or does a producer send to partitions of its own choice?"
        );
    }
    for queue in &stats.queues {
        for consumer in &queue.consumers {
            if consumer.silent_for > SILENT && consumer.lag > 0 {
                tracing::warn!(
                    queue = queue.name,
                    consumer = consumer.name,
                    silent_for = ?consumer.silent_for,
                    messages = consumer.lag,
                    "no process serves this consumer completely; what waits for it is kept. If it \
                     is coming back (a deploy, a rollback), start a process that has it and \
                     nothing is lost. Only if it is gone for good, remove it with \
                     `remove_consumer`: what waits for it is then never delivered to it, and if \
                     it registers again it starts at the newest message"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::stats::{ConsumerStats, QueueStats};
    use std::fmt::Debug;
    use std::sync::{Mutex, PoisonError};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Remembers the texts of events.
    #[derive(Clone, Default)]
    struct Texts(Arc<Mutex<String>>);

    impl Visit for Texts {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *texts += &format!("{}={value:?} ", field.name());
        }
    }

    impl Subscriber for Texts {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn said_of(silent_for: Duration, lag: u64) -> String {
        let consumer = ConsumerStats {
            name: "mail".to_owned(),
            mode: "leased".to_owned(),
            lag,
            silent_for,
            partitions: Vec::new(),
            failing: Vec::new(),
        };
        let queue = QueueStats {
            name: "orders".to_owned(),
            paused: false,
            incoming: 0,
            consumers: vec![consumer],
        };
        let stats = OutboxStats {
            queues: vec![queue],
            unregistered: Vec::new(),
        };
        let texts = Texts::default();
        tracing::subscriber::with_default(texts.clone(), || report(&stats));
        let said = texts.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.clone()
    }

    #[test]
    fn what_removing_a_silent_consumer_loses_is_said_with_the_advice() {
        let said = said_of(SILENT * 2, 7);
        for part in [
            "orders",
            "mail",
            "messages=7",
            "start a process",
            "nothing is lost",
            "gone for good",
            "`remove_consumer`",
            "never delivered to it",
            "starts at the newest message",
        ] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
    }

    #[test]
    fn a_consumer_that_is_served_or_has_nothing_to_do_is_not_mentioned() {
        assert_eq!(said_of(SILENT / 2, 7), "");
        assert_eq!(said_of(SILENT * 2, 0), "");
    }
}
