//! A TCP proxy between a process and the server: it can cut, half-close and delay
//! the connections that go through it.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is to happen to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    Open,
    /// Both directions end at once.
    Cut,
    /// No more reaches the server; what it says still arrives.
    DeafServer,
    /// No more reaches the client; what it says still arrives.
    DeafClient,
}

/// A proxy with a port of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    links: Mutex<Vec<watch::Sender<Link>>>,
    delay_millis: AtomicU64,
}

impl Proxy {
    /// Listens on a free port and forwards to `server`.
    pub(crate) async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let shared = Arc::new(Shared {
            server,
            links: Mutex::default(),
            delay_millis: AtomicU64::new(0),
        });
        let proxy = Self {
            address: listener.local_addr()?,
            shared: shared.clone(),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(shared.clone(), client));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection; returns how many there were.
    pub(crate) fn cut(&self) -> u64 {
        self.tell(|_| Link::Cut)
    }

    /// Closes one direction of every connection, now this one, now that.
    pub(crate) fn half_close(&self) -> u64 {
        self.tell(|i| match i % 2 {
            0 => Link::DeafServer,
            _ => Link::DeafClient,
        })
    }

    /// Holds everything back that long, from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_millis.store(millis, Ordering::Release);
    }

    /// Tells every connection; one that is half-closed already is cut. Returns how
    /// many were open.
    fn tell(&self, link: impl Fn(usize) -> Link) -> u64 {
        let mut links = self.shared.lock();
        links.retain(|sender| !sender.is_closed());
        let mut open = 0;
        for (i, sender) in links.iter().enumerate() {
            let was_open = *sender.borrow() == Link::Open;
            sender.send_replace(if was_open { link(i) } else { Link::Cut });
            open += u64::from(was_open);
        }
        open
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<watch::Sender<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(shared: Arc<Shared>, client: TcpStream) {
    // A server that is down looks like one that hangs up at once.
    let Ok(server) = TcpStream::connect(shared.server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (tell, told) = watch::channel(Link::Open);
    {
        let mut links = shared.lock();
        links.retain(|link| !link.is_closed());
        links.push(tell);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(
        &shared,
        from_client,
        to_server,
        told.clone(),
        Link::DeafServer,
    );
    let down = pump(&shared, from_server, to_client, told, Link::DeafClient);
    tokio::join!(up, down);
}

/// Moves bytes until the end, or until the link says so. What it holds is closed
/// when it returns.
async fn pump(
    shared: &Shared,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    deaf: Link,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let moved = async {
            let count = from.read(&mut buffer).await?;
            let delay = shared.delay_millis.load(Ordering::Acquire);
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            to.write_all(&buffer[..count]).await?;
            Ok::<usize, std::io::Error>(count)
        };
        tokio::select! {
            moved = moved => if !moved.is_ok_and(|count| count > 0) { break },
            _ = link.wait_for(|link| *link == Link::Cut || *link == deaf) => break,
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says what it hears.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn through(proxy: &Proxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        stream
    }

    #[tokio::test]
    async fn a_cut_ends_every_connection_and_a_new_one_works() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let (mut one, mut two) = (through(&proxy).await, through(&proxy).await);
        assert_eq!(proxy.cut(), 2);
        for stream in [&mut one, &mut two] {
            assert!(!stream.read(&mut [0; 8]).await.is_ok_and(|count| count > 0));
        }
        through(&proxy).await;
        assert_eq!(proxy.cut(), 1, "those that ended do not count again");
    }

    #[tokio::test]
    async fn a_half_closed_connection_ends() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let (mut one, mut two) = (through(&proxy).await, through(&proxy).await);
        assert_eq!(proxy.half_close(), 2);
        for stream in [&mut one, &mut two] {
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }
}
