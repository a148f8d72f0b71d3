//! A TCP proxy before a server that counts how often a client waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long a connection is silent when all is said.
const QUIET: Duration = Duration::from_millis(50);

/// Forwards everything and counts round trips: how often a client has said something and
/// can only wait for the answer.
pub struct CountingProxy {
    url: String,
    round_trips: Arc<AtomicU64>,
}

impl CountingProxy {
    /// Stands before the server of a URL.
    ///
    /// # Panics
    /// If the URL names no host and port.
    pub async fn start(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (authority, path) = rest.split_once('/').expect("a database");
        let (user, server) = authority.rsplit_once('@').expect("a user");
        let protocol = match scheme {
            "mysql" => Protocol::MySql,
            _ => Protocol::Postgres,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let round_trips = Arc::<AtomicU64>::default();
        let (server, count) = (server.to_owned(), round_trips.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, count) = (server.clone(), count.clone());
                tokio::spawn(async move { forward(client, &server, protocol, &count).await });
            }
        });
        Self {
            url: format!("{scheme}://{user}@{address}/{path}"),
            round_trips,
        }
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many there were on all connections, once all are silent: a pool asks a returned
    /// connection whether it is alive, and takes its time for that.
    pub async fn round_trips(&self) -> u64 {
        let mut count = self.round_trips.load(Ordering::SeqCst);
        loop {
            tokio::time::sleep(QUIET).await;
            match self.round_trips.load(Ordering::SeqCst) {
                now if now == count => return count,
                now => count = now,
            }
        }
    }
}

/// One connection, both directions.
async fn forward(
    mut client: TcpStream,
    server: &str,
    protocol: Protocol,
    round_trips: &AtomicU64,
) -> Option<()> {
    let mut server = TcpStream::connect(server).await.ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let (mut said, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut requests = Requests::new(protocol);
    loop {
        tokio::select! {
            count = client.read(&mut said) => {
                let said = &said[..count.ok().filter(|count| *count > 0)?];
                if requests.wait_after(said) {
                    round_trips.fetch_add(1, Ordering::SeqCst);
                }
                server.write_all(said).await.ok()?;
            }
            count = server.read(&mut answered) => {
                let answered = &answered[..count.ok().filter(|count| *count > 0)?];
                client.write_all(answered).await.ok()?;
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Postgres,
    MySql,
}

/// What a client has said so far: a large request may come in several parts, and one part may
/// have several messages.
struct Requests {
    protocol: Protocol,
    /// The begun head of a message.
    head: Vec<u8>,
    /// How much of a message is still to come.
    rest: usize,
    /// Whether the last message has an answer.
    answered: bool,
}

impl Requests {
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            head: Vec::new(),
            rest: 0,
            answered: false,
        }
    }

    /// Takes the next part; says whether the client now waits.
    fn wait_after(&mut self, mut part: &[u8]) -> bool {
        while let Some(&byte) = part.first() {
            let taken = if self.rest > 0 {
                let taken = self.rest.min(part.len());
                self.rest -= taken;
                taken
            } else {
                self.head.push(byte);
                if let Some((rest, answered)) = self.message() {
                    (self.rest, self.answered) = (rest, answered);
                    self.head.clear();
                }
                1
            };
            part = &part[taken..];
        }
        self.rest == 0 && self.head.is_empty() && self.answered
    }

    /// How much follows the head, once that is complete, and whether there will be an answer.
    fn message(&self) -> Option<(usize, bool)> {
        match (self.protocol, &*self.head) {
            // Three bytes of length and a number; then the command. Closing a statement
            // (0x19) has no answer.
            (Protocol::MySql, [0, 0, 0, _]) => Some((0, true)),
            (Protocol::MySql, &[a, b, c, number, command]) => {
                let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
                Some((length - 1, (number, command) != (0, 0x19)))
            }
            // The very first message has no kind. An answer comes after a query, a sync and
            // a password.
            (Protocol::Postgres, &[0, a, b, c]) => {
                Some((u32::from_be_bytes([0, a, b, c]) as usize - 4, true))
            }
            (Protocol::Postgres, &[kind, a, b, c, d]) if kind != 0 => {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                Some((length - 4, [b'Q', b'S', b'p'].contains(&kind)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_postgres_waits_after_a_sync_in_however_many_parts() {
        let mut requests = Requests::new(Protocol::Postgres);
        assert!(requests.wait_after(&[0, 0, 0, 8, 1, 2, 3, 4]));
        let parse_and_sync = [b'P', 0, 0, 0, 6, 1, 2, b'S', 0, 0, 0, 4];
        assert!(requests.wait_after(&parse_and_sync));
        for byte in &parse_and_sync[..11] {
            assert!(!requests.wait_after(&[*byte]));
        }
        assert!(requests.wait_after(&[4]));
    }

    #[test]
    fn a_client_of_mysql_waits_after_a_command_unless_it_closes_a_statement() {
        let mut requests = Requests::new(Protocol::MySql);
        assert!(!requests.wait_after(&[5, 0, 0, 0, 0x19, 1]));
        assert!(!requests.wait_after(&[0, 0, 0]));
        assert!(requests.wait_after(&[1, 0, 0, 0, 0x0e]));
    }
}
