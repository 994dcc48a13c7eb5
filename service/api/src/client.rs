//! The blocking client.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::method::encode_request;
use crate::{ApiError, LineError, LineReader, Method, Outcome, Response, VERSION, decode_response};

/// The timeout of [`Client::connect`] and of each call.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing listens there.
    #[error("no weever stack listens on {}: {source}", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// The system's error: there is no such file, or its process is gone.
        source: io::Error,
    },
    /// The socket may not be used.
    #[error("cannot use {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// No answer came in time.
    #[error("{} did not answer within {} ms", path.display(), timeout.as_millis())]
    TimedOut {
        /// The socket.
        path: PathBuf,
        /// The timeout.
        timeout: Duration,
    },
    /// The connection broke.
    #[error("the connection to {} broke: {why}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// The failure.
        why: String,
    },
    /// The answer is not one of this version.
    #[error("{} sent no valid answer of version {VERSION}: {why}", path.display())]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// The mistake.
        why: String,
    },
    /// The stack refused.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// A connection to a running stack. Calls are answered one after the other; every call blocks for
/// at most the timeout. After an error other than [`ClientError::Refused`] the connection is
/// unusable.
#[derive(Debug)]
pub struct Client {
    reader: LineReader<Deadline>,
    path: PathBuf,
    timeout: Duration,
    last_id: u64,
}

impl Client {
    /// Connects to the stack that listens on `path`, with a timeout of [`TIMEOUT`].
    ///
    /// # Errors
    /// [`ClientError::NotRunning`], [`ClientError::Connect`] or [`ClientError::TimedOut`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ClientError> {
        Client::connect_within(path, TIMEOUT)
    }

    /// Connects with another timeout, which holds for each call too.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(
        path: impl AsRef<Path>,
        timeout: Duration,
    ) -> Result<Client, ClientError> {
        let path = path.as_ref().to_owned();
        match open(&path, timeout) {
            Ok(stream) => {
                let reader = LineReader::new(Deadline { stream, at: Instant::now() });
                Ok(Client { reader, path, timeout, last_id: 0 })
            }
            Err(source) => Err(connect_error(path, source, timeout)),
        }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request and waits for its answer: for the first one, if the method has several.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::Refused`] means that nothing has changed.
    pub fn call<M: Method>(&mut self, request: &M) -> Result<M::Answer, ClientError> {
        self.last_id += 1;
        self.reader.stream().at = Instant::now() + self.timeout;
        let sent = self.reader.stream().send(encode_request(self.last_id, request));
        // A stack that refuses the connection answers and closes before it has read the request:
        // its answer says more than the broken pipe.
        let response = match (self.receive(), sent) {
            (Ok(response), _) => response,
            (Err(_), Err(e)) => return Err(self.io_error(e)),
            (Err(e), Ok(())) => return Err(e),
        };
        self.accept(response)
    }

    /// The next answer to the last request, whose type is `M`, for methods that answer several times;
    /// `None` if none has come after `wait`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next_answer<M: Method>(
        &mut self,
        wait: Duration,
    ) -> Result<Option<M::Answer>, ClientError> {
        self.reader.stream().at = Instant::now() + at_least_a_bit(wait);
        match self.receive() {
            Ok(response) => self.accept(response).map(Some),
            Err(ClientError::TimedOut { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Blocks until the stack has closed the connection: after
    /// [`StopRequest`](crate::StopRequest), when it has shut down.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] when that takes longer than `timeout`.
    pub fn wait_closed(mut self, timeout: Duration) -> Result<(), ClientError> {
        self.timeout = timeout;
        self.reader.stream().at = Instant::now() + timeout;
        loop {
            match self.reader.next_line() {
                Ok(Some(_)) => {}
                Err(LineError::Io(e)) if is_timeout(&e) => return Err(self.timed_out()),
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    fn receive(&mut self) -> Result<Response, ClientError> {
        let line = match self.reader.next_line() {
            Ok(Some(line)) => decode_response(line).map_err(|e| e.to_string()),
            Ok(None) => return Err(self.broken("it was closed".into())),
            Err(LineError::Io(e)) => return Err(self.io_error(e)),
            Err(LineError::TooLong) => Err(LineError::TooLong.to_string()),
            Err(e) => return Err(self.broken(e.to_string())),
        };
        line.map_err(|why| self.protocol(why))
    }

    fn accept<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        let value = match response.outcome {
            Outcome::Error(error) => return Err(ClientError::Refused(error)),
            Outcome::Ok(value) => value,
        };
        if response.version != VERSION {
            return Err(self.protocol(format!("it is of version {}", response.version)));
        }
        if response.id != Some(self.last_id) {
            return Err(self.protocol("it answers another request".into()));
        }
        serde_json::from_value(value).map_err(|e| self.protocol(e.to_string()))
    }

    fn io_error(&self, error: io::Error) -> ClientError {
        if is_timeout(&error) { self.timed_out() } else { self.broken(error.to_string()) }
    }

    fn timed_out(&self) -> ClientError {
        ClientError::TimedOut { path: self.path.clone(), timeout: self.timeout }
    }

    fn broken(&self, why: String) -> ClientError {
        ClientError::Broken { path: self.path.clone(), why }
    }

    fn protocol(&self, why: String) -> ClientError {
        ClientError::Protocol { path: self.path.clone(), why }
    }
}

/// Connects. The send timeout bounds the wait for a listener whose backlog is full.
fn open(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(at_least_a_bit(timeout)))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}

fn connect_error(path: PathBuf, source: io::Error, timeout: Duration) -> ClientError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NotRunning { path, source }
        }
        _ if is_timeout(&source) => ClientError::TimedOut { path, timeout },
        _ => ClientError::Connect { path, source },
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A timeout of nothing would mean none at all.
fn at_least_a_bit(timeout: Duration) -> Duration {
    timeout.max(Duration::from_millis(1))
}

/// A stream on which reading and writing end at a deadline, even if the peer sends byte by byte.
#[derive(Debug)]
struct Deadline {
    stream: UnixStream,
    at: Instant,
}

impl Deadline {
    fn left(&self) -> io::Result<Duration> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(at_least_a_bit(left)) }
    }

    fn send(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write_all(line.as_bytes())
    }
}

impl Read for Deadline {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(out)
    }
}
