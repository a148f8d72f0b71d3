//! Once a minute: what a person should hear of before it hurts.

use super::supervisor::Shared;
use crate::stats::{OutboxStats, read};
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(60);
/// A consumer nobody serves for this long is worth a word.
const SILENT: Duration = Duration::from_secs(120);

/// Logs what is stuck.
pub(super) async fn run_watch(shared: Arc<Shared>) {
    let tuning = &shared.profile.vacuum;
    let mut failures = 0;
    while !shared.stopping() {
        shared.pause(EVERY).await;
        if shared.stopping() {
            return;
        }
        let pass = read(&shared.db);
        if let Some(stats) = shared.pass("the watch", tuning, &mut failures, pass).await {
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
            "messages wait in a queue or partition that nobody registered; they are kept. Was a \
             producer compiled with another number of partitions, or was its consumer never started?"
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
                    "no process serves this consumer completely; it keeps delivered messages from \
                     being deleted. Start one, or forget it with `remove_consumer`"
                );
            }
        }
    }
}
