//! Accepting clients and answering each on a thread of its own.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;
use weever_service_api::{ApiError, ErrorKind, Handler, LineError, LineReader, Response, answer};

use super::ControlSocket;

/// Clients that are served at once; the next one is refused.
const MOST_CLIENTS: usize = 32;

/// Answers on a control socket until it is dropped. Dropping it closes every connection, waits for
/// its threads and removes the socket's file.
pub struct ControlServer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    socket: ControlSocket,
    handler: Arc<dyn Handler>,
    stopping: AtomicBool,
    clients: Mutex<HashMap<u64, Client>>,
}

struct Client {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Answers on `socket` by `handler`, on threads of its own.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn serve(socket: ControlSocket, handler: Arc<dyn Handler>) -> io::Result<ControlServer> {
        let (stopping, clients) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { socket, handler, stopping, clients });
        let accepting = Arc::clone(&shared);
        let acceptor =
            thread::Builder::new().name("control".into()).spawn(move || accept(&accepting))?;
        Ok(ControlServer { shared, acceptor: Some(acceptor) })
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        self.shared.socket.path()
    }
}

impl std::fmt::Debug for ControlServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlServer({})", self.path().display())
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Shutting down a listening Unix socket makes `accept` return (EINVAL).
        drop(SockRef::from(&self.shared.socket.listener).shutdown(Shutdown::Both));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
        let clients: Vec<Client> = self.shared.clients().drain().map(|(_, c)| c).collect();
        for client in clients {
            drop(client.stream.shutdown(Shutdown::Both));
            // A thread that itself drops the server cannot wait for itself.
            let other = client.thread.filter(|t| t.thread().id() != thread::current().id());
            drop(other.map(JoinHandle::join));
        }
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(shared: &Arc<Shared>) {
    for number in 0.. {
        let accepted = shared.socket.listener.accept();
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            Ok((stream, _)) if shared.clients().len() >= MOST_CLIENTS => drop(turn_away(stream)),
            // A client without a thread or descriptor for it sees its connection closed.
            Ok((stream, _)) => drop(start(shared, number, stream)),
            // Out of descriptors, most likely: others may close theirs.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn start(shared: &Arc<Shared>, number: u64, stream: UnixStream) -> io::Result<()> {
    let client = Client { stream: stream.try_clone()?, thread: None };
    // Entered before the thread starts, which may end at once and must find itself.
    shared.clients().insert(number, client);
    let serving = Arc::clone(shared);
    let work = move || {
        let _leave = Leave { shared: &serving, number };
        drop(serve(stream, serving.handler.as_ref()));
    };
    match thread::Builder::new().name("control-client".into()).spawn(work) {
        Ok(thread) => {
            if let Some(client) = shared.clients().get_mut(&number) {
                client.thread = Some(thread);
            }
            Ok(())
        }
        Err(e) => {
            shared.clients().remove(&number);
            Err(e)
        }
    }
}

/// Gives a client's place back, even when serving it panicked.
struct Leave<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.shared.clients().remove(&self.number);
    }
}

/// A client that has asked nothing for so long is sent away.
const IDLE: Duration = Duration::from_secs(60);
/// A client that does not read its answers for so long, too.
const SLOW: Duration = Duration::from_secs(5);

/// Answers one client until it leaves, misbehaves or idles. A message that cannot be understood
/// gets an error and the connection goes on; one without a recognizable end closes it.
fn serve(stream: UnixStream, handler: &dyn Handler) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(SLOW))?;
    let writer = stream.try_clone()?;
    let mut reader = LineReader::new(stream);
    loop {
        match reader.next_line() {
            Ok(Some(line)) => answer(handler, line, &writer)?,
            Err(LineError::TooLong) => {
                refuse(&writer, ApiError::too_long())?;
                return drain(reader);
            }
            // Half a message at the end, or an idle client: no answer would be read.
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}

/// Tells a client that the server is full.
fn turn_away(stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let error = ApiError::new(
        ErrorKind::Busy,
        "as many clients are connected as the stack serves at once",
        "close a connection and try again",
    );
    refuse(&stream, error)
}

fn refuse(mut writer: &UnixStream, error: ApiError) -> io::Result<()> {
    let mut line = Response::<()>::new(None, Err(error)).encode();
    line.push('\n');
    writer.write_all(line.as_bytes())
}

/// Reads on for a little before closing: closing a socket with unread input can cost the client
/// the answer that explains it.
fn drain(mut reader: LineReader<UnixStream>) -> io::Result<()> {
    let stream = reader.stream();
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut rest = io::Read::take(stream, 64 << 20);
    drop(io::copy(&mut rest, &mut io::sink()));
    Ok(())
}
