//! A TCP proxy before a server that fails at the worst moment of one transaction, or only takes
//! its time then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is lost of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The commit: the server never hears of it.
    Commit,
    /// The answer: it is committed, and the client never hears of it.
    Answer,
    /// Nothing but time: each commit reaches the server so much later.
    Time(Duration),
}

/// Forwards everything until a connection commits that has said certain words. Then that is
/// lost, every connection ends, and new ones wait until [`go_on`](Self::go_on). If only time is
/// lost, it goes on.
#[derive(Clone)]
pub struct LossyProxy {
    url: String,
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    words: &'static str,
    /// What is to be lost, until it is.
    lost: Mutex<Option<Lost>>,
    up: watch::Sender<bool>,
}

impl Shared {
    /// What is lost now: a commit or an answer only once.
    fn lost(&self) -> Option<Lost> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        match *lost {
            Some(Lost::Time(_)) => *lost,
            _ => lost.take(),
        }
    }
}

impl LossyProxy {
    /// Stands before the server of a URL; loses `lost` of the first commit of a connection
    /// that has said `words`.
    ///
    /// # Panics
    /// If the URL names no host and port.
    pub async fn start(url: &str, words: &'static str, lost: Lost) -> Self {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (authority, path) = rest.split_once('/').expect("a database");
        let (user, server) = authority.rsplit_once('@').expect("a user");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            words,
            lost: Mutex::new(Some(lost)),
            up: watch::Sender::new(true),
        });
        let proxy = Self {
            url: format!("{scheme}://{user}@{address}/{path}"),
            shared: shared.clone(),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { forward(&shared, client).await });
            }
        });
        proxy
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until something was lost.
    ///
    /// # Panics
    /// Never while the proxy is there.
    pub async fn failed(&self) {
        let mut up = self.shared.up.subscribe();
        up.wait_for(|up| !up).await.expect("the proxy is there");
    }

    /// Lets everything through from now on.
    pub fn go_on(&self) {
        self.shared.up.send_replace(true);
    }
}

/// One connection, both directions.
async fn forward(shared: &Shared, mut client: TcpStream) -> Option<()> {
    let mut up = shared.up.subscribe();
    up.wait_for(|up| *up).await.ok()?;
    let mut server = TcpStream::connect(&shared.server).await.ok()?;
    let (mut said, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let (mut chosen, mut losing) = (false, false);
    loop {
        tokio::select! {
            count = client.read(&mut said) => {
                let said = &said[..count.ok().filter(|count| *count > 0)?];
                chosen |= contains(said, shared.words);
                if chosen && contains(said, "COMMIT") {
                    let lost = shared.lost();
                    if lost == Some(Lost::Commit) {
                        shared.up.send_replace(false);
                        return None;
                    }
                    losing |= lost == Some(Lost::Answer);
                    if let Some(Lost::Time(delay)) = lost {
                        tokio::time::sleep(delay).await;
                        chosen = false;
                    }
                }
                server.write_all(said).await.ok()?;
            }
            count = server.read(&mut answered) => {
                if losing {
                    shared.up.send_replace(false);
                    return None;
                }
                let answered = &answered[..count.ok().filter(|count| *count > 0)?];
                client.write_all(answered).await.ok()?;
            }
            _ = up.changed() => return None,
        }
    }
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes
        .windows(words.len())
        .any(|part| part == words.as_bytes())
}
