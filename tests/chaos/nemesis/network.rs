//! Faults of connections: cut, half-closed, delayed.

use super::Target;
use crate::proxy::Proxy;
use std::time::Duration;

fn victim<'a>(target: &Target<'a>, rng: &mut fastrand::Rng) -> Option<&'a Proxy> {
    let proxies = target
        .supervisor
        .processes
        .iter()
        .filter_map(|m| m.proxy.as_ref());
    rng.choice(proxies.collect::<Vec<_>>())
}

pub(super) fn cut(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let cut = victim(target, rng).map_or(0, Proxy::cut);
    target.fault_counts.add("cuts", cut);
}

pub(super) fn half_close(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let closed = victim(target, rng).map_or(0, Proxy::half_close);
    target.fault_counts.add("half-closed", closed);
}

/// Slow for a while; or nothing arrives for long, and then the connection is gone.
pub(super) async fn delay(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let Some(proxy) = victim(target, rng) else {
        return;
    };
    target.fault_counts.add("delays", 1);
    if rng.bool() {
        proxy.delay(Duration::from_millis(rng.u64(5..60)));
        tokio::time::sleep(Duration::from_secs(2)).await;
    } else {
        proxy.delay(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(rng.u64(500..3_000))).await;
        target.fault_counts.add("cuts", proxy.cut());
    }
    proxy.delay(Duration::ZERO);
}
