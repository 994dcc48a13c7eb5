//! Counters for Prometheus, over HTTP on an address that the configuration names.
//!
//! The server knows one method and one path, so it is written here: the bytes of a request, its
//! time and the clients at once are bounded, and a page a minute needs no runtime.

mod http;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

pub use text::exposition;

/// Clients that are served at once; the next one is turned away.
const MOST_CLIENTS: usize = 8;

/// Makes the page, usually with [`exposition`]. Called from several threads.
pub type Page = dyn Fn() -> String + Send + Sync;

/// Answers `GET /metrics` until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    listener: TcpListener,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Answers on `listener` with the text of `page`, on threads of its own.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn serve(listener: TcpListener, page: Arc<Page>) -> io::Result<MetricsServer> {
        let (address, accepting) = (listener.local_addr()?, listener.try_clone()?);
        let stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopping);
        let work = move || accept(&accepting, &page, &stops);
        let acceptor = thread::Builder::new().name("metrics".into()).spawn(work)?;
        Ok(MetricsServer { address, listener, stopping, acceptor: Some(acceptor) })
    }

    /// The address where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // On Linux, shutting a listening socket down makes `accept` return.
        drop(SockRef::from(&self.listener).shutdown(std::net::Shutdown::Both));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

fn accept(listener: &TcpListener, page: &Arc<Page>, stopping: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if clients.fetch_add(1, Ordering::AcqRel) >= MOST_CLIENTS {
            http::turn_away(&stream);
            clients.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let place = ClientSlot(Arc::clone(&clients));
        let page = Arc::clone(page);
        let serve = move || {
            let _place = place;
            // A client that misbehaves or goes away is no failure of ours.
            drop(http::serve(&stream, page.as_ref()));
        };
        // Without a thread, the client sees its connection closed.
        drop(thread::Builder::new().name("metrics-client".into()).spawn(serve));
    }
}

/// Gives a client's place back, even when serving it panicked.
struct ClientSlot(Arc<AtomicUsize>);

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
