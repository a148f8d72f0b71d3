//! The workloads that every contestant runs.

use crate::processes;
use crate::sink::{Commit, now};
use crate::{Contestant, Error, Payload, Settings, Sink, Worker};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs the workload of the command line and prints the result. The `main` of
/// every contestant calls it.
///
/// # Errors
/// Any error of the contestant.
pub async fn run<C: Contestant>() -> Result<(), Error> {
    let settings = Settings::read(std::env::args().skip(1))?;
    let contestant = Arc::new(C::connect(&settings).await?);
    let found = match &*settings.workload {
        "enqueue" => enqueue(&contestant, &settings).await?,
        "fill" => fill(&contestant, &settings).await?,
        "drain" => drain(&contestant, &settings).await?,
        "latency" => latency(&contestant, &settings).await?,
        "serve" => return serve(&contestant, &settings).await,
        "produce" => {
            for commit in steadily(&contestant, &settings).await? {
                println!("{} {} {}", commit.key, commit.number, commit.at);
            }
            return Ok(());
        }
        "together" => together(&contestant, &settings).await?,
        "whole" => whole(&contestant, &settings).await?,
        "idle" => idle(&contestant, &settings).await?,
        other => return Err(format!("`{other}` is no workload").into()),
    };
    let line = json!({
        "contestant": C::NAME,
        "ordered": C::ORDERED,
        "settings": settings,
        "found": found,
        "memory_mb": peak_memory().filter(|_| settings.processes == 1),
    });
    println!("{line}");
    Ok(())
}

/// The most memory this process had so far, where `/proc` tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes / 1000)
}

/// Messages of one producer. No other producer uses its keys, so the numbers of a key are
/// in the order of the commits.
struct Producer {
    keys: Vec<(u32, u32)>,
    next: usize,
    filler: String,
}

impl Producer {
    fn new(settings: &Settings, index: usize, producers: usize) -> Self {
        let keys = (0..settings.keys).filter(|key| key % producers == index);
        Self {
            keys: keys.map(|key| (key as u32, 0)).collect(),
            next: 0,
            filler: "x".repeat(settings.bytes.saturating_sub(70)),
        }
    }

    fn messages(&mut self, count: usize) -> Vec<(String, Payload)> {
        let message = |_| {
            let place = self.next % self.keys.len();
            self.next += 1;
            let (key, number) = &mut self.keys[place];
            let payload = Payload {
                key: *key,
                number: *number,
                sent: now(),
                filler: self.filler.clone(),
            };
            *number += 1;
            (format!("key-{key}"), payload)
        };
        (0..count).map(message).collect()
    }
}

/// Producers that commit until `enough`; returns how many messages and how long.
async fn produce<C: Contestant>(
    contestant: &Arc<C>,
    settings: &Settings,
    enough: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Result<(usize, Duration), Error> {
    let (sent, took, _) = produce_and_note(contestant, settings, enough).await?;
    Ok((sent, took))
}

/// The same, and when each message's commit returned.
async fn produce_and_note<C: Contestant>(
    contestant: &Arc<C>,
    settings: &Settings,
    enough: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Result<(usize, Duration, Vec<Commit>), Error> {
    let (sent, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(enough));
    let began = Instant::now();
    let producers = settings.producers;
    let mut tasks = Vec::new();
    for index in 0..producers {
        let (contestant, settings) = (contestant.clone(), settings.clone());
        let (sent, enough) = (sent.clone(), enough.clone());
        tasks.push(tokio::spawn(async move {
            let mut producer = Producer::new(&settings, index, producers);
            let mut commits = Vec::new();
            while !enough(sent.fetch_add(settings.per_transaction, Ordering::AcqRel)) {
                let messages = producer.messages(settings.per_transaction);
                let (key, number) = (messages[0].1.key, messages[0].1.number);
                contestant.enqueue(messages).await?;
                let at = now();
                commits.push(Commit { key, number, at });
            }
            sent.fetch_sub(settings.per_transaction, Ordering::AcqRel);
            Ok::<_, Error>(commits)
        }));
    }
    let mut commits = Vec::new();
    for task in tasks {
        commits.extend(task.await??);
    }
    Ok((sent.load(Ordering::Acquire), began.elapsed(), commits))
}

fn for_seconds(settings: &Settings) -> impl Fn(usize) -> bool + Send + Sync + 'static {
    let end = Instant::now() + Duration::from_secs(settings.seconds);
    move |_| Instant::now() >= end
}

async fn enqueue<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let (sent, took) = produce(contestant, settings, for_seconds(settings)).await?;
    Ok(json!({ "sent": sent, "per_second": rate(sent, took) }))
}

/// Makes a backlog.
async fn fill<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let count = settings.count;
    let (sent, took) = produce(contestant, settings, move |sent| sent >= count).await?;
    Ok(json!({ "sent": sent, "per_second": rate(sent, took) }))
}

/// Works off a backlog that `fill` made, to the last row.
async fn drain<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let sink = Arc::new(Sink::default());
    let began = Instant::now();
    let (handled, settled) = if settings.processes > 1 {
        processes::drain(contestant, settings, &sink).await?
    } else {
        let worker = contestant.work(settings, sink.clone()).await?;
        let handled = wait(settings.count, &sink).await?;
        let settled = settle(contestant).await?;
        worker.stop().await;
        (handled, settled)
    };
    let took = settled - began;
    Ok(json!({
        "per_second": rate(settings.count, took),
        "handled_per_second": rate(settings.count, handled.duration_since(began)),
        "settled_after_ms": (settled - handled).as_millis(),
        "complete": sink.arrived() == settings.count,
        "seen": sink.seen(),
    }))
}

/// Messages from beginning to end, so that the server's statistics show what they cost:
/// enqueued, worked off and, by contestants that do it soon, deleted.
async fn whole<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    fill(contestant, settings).await?;
    let found = drain(contestant, settings).await?;
    Ok(json!({ "complete": found["complete"], "seen": found["seen"] }))
}

/// Commit to handler, at a steady rate on an otherwise idle system.
async fn latency<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let sink = Arc::new(Sink::with_times());
    let worker = contestant.work(settings, sink.clone()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let commits = if settings.elsewhere {
        elsewhere().await?
    } else {
        steadily(contestant, settings).await?
    };
    let sent = commits.len();
    wait(sent, &sink).await?;
    worker.stop().await;
    sink.count_from(&commits);
    Ok(json!({ "sent": sent, "complete": sink.arrived() == sent, "seen": sink.seen() }))
}

/// The same producer in another process, which prints its commits.
async fn elsewhere() -> Result<Vec<Commit>, Error> {
    let output = processes::another("produce")?.output().await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the other process failed: {said}").into());
    }
    let text = String::from_utf8(output.stdout)?;
    let commit = |line: &str| {
        let mut words = line.split(' ');
        Some(Commit {
            key: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
            at: words.next()?.parse().ok()?,
        })
    };
    Ok(text.lines().filter_map(commit).collect())
}

/// Works for another process, until that process closes the standard input.
async fn serve<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<(), Error> {
    let worker = contestant.work(settings, Arc::new(Sink::telling())).await?;
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    worker.stop().await;
    Ok(())
}

/// One message per transaction at the given rate.
async fn steadily<C: Contestant>(
    contestant: &Arc<C>,
    settings: &Settings,
) -> Result<Vec<Commit>, Error> {
    let mut producer = Producer::new(settings, 0, 1);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / settings.rate as u32);
    let mut commits = Vec::new();
    for _ in 0..settings.rate * settings.seconds as usize {
        ticks.tick().await;
        let messages = producer.messages(1);
        let (key, number) = (messages[0].1.key, messages[0].1.number);
        contestant.enqueue(messages).await?;
        commits.push(Commit {
            key,
            number,
            at: now(),
        });
    }
    Ok(commits)
}

/// Producers and workers at once; a curve with a point for each second.
async fn together<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let sink = Arc::new(Sink::with_times());
    let worker = contestant.work(settings, sink.clone()).await?;
    let done = Arc::new(AtomicBool::new(false));
    let curve = tokio::spawn(by_second(sink.clone(), done.clone()));
    let (sent, took, commits) =
        produce_and_note(contestant, settings, for_seconds(settings)).await?;
    done.store(true, Ordering::Release);
    let behind = sent - sink.arrived().min(sent);
    // A contestant that is too far behind is not waited for: that would take hours.
    let catch_up = Duration::from_secs((settings.seconds / 5).max(60));
    if let Ok(waited) = tokio::time::timeout(catch_up, wait(sent, &sink)).await {
        waited?;
    }
    worker.stop().await;
    sink.count_from(&commits);
    Ok(json!({
        "sent": sent,
        "per_second": rate(sent, took),
        "behind_at_the_end": behind,
        "complete": sink.arrived() == sent,
        "curve": curve.await?,
        "seen": sink.seen(),
    }))
}

async fn by_second(sink: Arc<Sink>, done: Arc<AtomicBool>) -> Vec<usize> {
    let (mut curve, mut before) = (Vec::new(), 0);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    while !done.load(Ordering::Acquire) {
        ticks.tick().await;
        let arrived = sink.arrived();
        curve.push(arrived - before);
        before = arrived;
    }
    curve
}

/// Nothing to do, so that the server's statistics show what that costs.
async fn idle<C: Contestant>(contestant: &Arc<C>, settings: &Settings) -> Result<Value, Error> {
    let worker: Worker = contestant.work(settings, Arc::new(Sink::default())).await?;
    tokio::time::sleep(Duration::from_secs(settings.seconds)).await;
    worker.stop().await;
    Ok(json!({}))
}

/// Waits until so many messages arrived.
async fn wait(count: usize, sink: &Sink) -> Result<Instant, Error> {
    let (mut last, mut since) = (sink.arrived(), Instant::now());
    while sink.arrived() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if sink.arrived() != last {
            (last, since) = (sink.arrived(), Instant::now());
        }
        if since.elapsed() > Duration::from_secs(120) {
            return Err(format!("{last} of {count} arrived, and no more for two minutes").into());
        }
    }
    Ok(Instant::now())
}

/// Waits until every message is settled.
pub(crate) async fn settle<C: Contestant>(contestant: &Arc<C>) -> Result<Instant, Error> {
    let began = Instant::now();
    while contestant.unsettled().await? > 0 {
        if began.elapsed() > Duration::from_secs(300) {
            return Err("not settled after five minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(Instant::now())
}

fn rate(count: usize, took: Duration) -> f64 {
    (count as f64 / took.as_secs_f64()).round()
}
