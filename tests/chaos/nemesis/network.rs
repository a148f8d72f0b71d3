//! Faults of connections: cut, half-closed, delayed.

use super::Ground;
use crate::proxy::Proxy;
use std::time::Duration;

fn victim<'a>(ground: &Ground<'a>, rng: &mut fastrand::Rng) -> Option<&'a Proxy> {
    let proxies = ground.crew.members.iter().filter_map(|m| m.proxy.as_ref());
    rng.choice(proxies.collect::<Vec<_>>())
}

pub(super) fn cut(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let cut = victim(ground, rng).map_or(0, Proxy::cut);
    ground.tally.add("cuts", cut);
}

pub(super) fn half_close(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let closed = victim(ground, rng).map_or(0, Proxy::half_close);
    ground.tally.add("half-closed", closed);
}

/// Slow for a while; or nothing arrives for long, and then the connection is gone.
pub(super) async fn delay(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let Some(proxy) = victim(ground, rng) else {
        return;
    };
    ground.tally.add("delays", 1);
    if rng.bool() {
        proxy.delay(Duration::from_millis(rng.u64(5..60)));
        tokio::time::sleep(Duration::from_secs(2)).await;
    } else {
        proxy.delay(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(rng.u64(500..3_000))).await;
        ground.tally.add("cuts", proxy.cut());
    }
    proxy.delay(Duration::ZERO);
}
