//! Several processes of one contestant.

use crate::workload::settle;
use crate::{Contestant, Error, Settings, Sink};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

/// This program again, with another workload and the same settings.
pub(crate) fn another(workload: &str) -> Result<Command, Error> {
    let own = std::env::args().skip(1);
    let words = own.map(|word| match word.contains('=') {
        true => word,
        false => workload.to_owned(),
    });
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).kill_on_drop(true);
    Ok(command)
}

/// A message that another process handled: key, number, when sent, when handled.
type Told = (u32, u32, u64, u64);

/// Other processes work off a backlog and print each message that they handle. The messages are
/// checked in the order of time. Returns when all were handled, and when all were settled.
pub(crate) async fn drain<C: Contestant>(
    contestant: &Arc<C>,
    settings: &Settings,
    sink: &Sink,
) -> Result<(Instant, Instant), Error> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut children = Vec::new();
    for _ in 0..settings.processes {
        let mut child = another("serve")?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?);
        tokio::spawn(listen(lines, tell.clone()));
        children.push(child);
    }
    let mut heard: Vec<Told> = Vec::with_capacity(settings.count);
    while heard.len() < settings.count {
        let next = tokio::time::timeout(Duration::from_secs(120), told.recv()).await;
        heard.push(next?.ok_or("every process ended")?);
    }
    let handled = Instant::now();
    settle(contestant).await?;
    let settled = Instant::now();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        child.wait().await?;
    }
    drop(tell);
    while let Some(again) = told.recv().await {
        heard.push(again);
    }
    heard.sort_by_key(|(_, _, _, at)| *at);
    for (key, number, sent, at) in heard {
        sink.took(key, number, sent, at);
    }
    Ok((handled, settled))
}

async fn listen(lines: impl tokio::io::AsyncBufRead + Unpin, tell: mpsc::UnboundedSender<Told>) {
    let mut lines = lines.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let numbers: Vec<u64> = line.split(' ').flat_map(str::parse).collect();
        if let [key, number, sent, at] = numbers[..] {
            let _ = tell.send((key as u32, number as u32, sent, at));
        }
    }
}
