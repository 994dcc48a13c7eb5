//! Applications on a Unix socket.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use weever_app_ring::control::{Connection, ControlError, Refusal, Request, Response};
use weever_app_ring::{return_name, return_path};
use weever_net::random::Secret;

use crate::access::{Access, Credentials};
use crate::application::Application;
use crate::place::{ListenError, SocketFile, open, open_name, take_place};
use crate::request::Identity;
use crate::server::AppServer;
use crate::session::{Answer, Session, refused};

/// The most applications that are served at once.
const MAX_CONNECTIONS: usize = 4096;
/// The most connections that have yet to show a credential; the oldest is ended for another one.
const MAX_UNPROVED: usize = 64;
/// Requests of one application that are answered before the others get their turn.
const REQUESTS_PER_TURN: usize = 64;
/// How long to wait before ports of closed sockets are looked at.
const PORTS_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A bound socket on which nobody is served yet: a stack takes its place before it takes devices and
/// gives up privileges. Programs that connect meanwhile wait.
pub struct AppSocket {
    access: Access,
    socket: OwnedFd,
    file: SocketFile,
    returning: Option<Returning>,
}

/// The sockets on which programs show the credentials that they were given before they changed their user.
struct Returning {
    /// The one with a file, and one with an abstract name if it is free.
    sockets: Vec<OwnedFd>,
    file: SocketFile,
    credentials: Credentials,
}

impl Returning {
    /// Binds the socket beside the one at `path`.
    fn bind(path: &Path, secret: Secret) -> Result<Returning, ListenError> {
        let beside = return_path(path);
        // No other stack runs at the path: a file that is there was left by one that was killed.
        let _ = fs::remove_file(&beside);
        let (socket, file) = open(&beside, 0o666)?;
        let mut sockets = vec![socket];
        if let Some(name) = return_name(path) {
            match open_name(&name) {
                Ok(named) => sockets.push(named),
                Err(why) => tracing::warn!(
                    name = %String::from_utf8_lossy(&name),
                    "programs that change their root will not come back after a restart: the abstract socket name {why}"
                ),
            }
        }
        Ok(Returning { sockets, file, credentials: Credentials::new(secret) })
    }
}

impl AppSocket {
    /// Binds a socket at `path`. Applications without `access` cannot connect, or are disconnected at once.
    ///
    /// # Errors
    /// [`ListenError`]; nothing is left behind.
    pub fn bind(path: &Path, access: &Access) -> Result<AppSocket, ListenError> {
        AppSocket::bind_both(path, access, None)
    }

    /// The same for a stack that gives credentials to programs which ask for them, and lets programs connect that show
    /// one, whatever their user is: they were admitted before they changed it. `secret` is known to no program, and the
    /// same as that of the stack that ran before, so that credentials outlive it.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_with_credentials(
        path: &Path,
        access: &Access,
        secret: Secret,
    ) -> Result<AppSocket, ListenError> {
        AppSocket::bind_both(path, access, Some(secret))
    }

    fn bind_both(
        path: &Path,
        access: &Access,
        secret: Option<Secret>,
    ) -> Result<AppSocket, ListenError> {
        take_place(path)?;
        // First: a program that finds the other one can show its credential.
        let returning = secret.map(|secret| Returning::bind(path, secret)).transpose()?;
        let (socket, file) = open(path, access.mode())?;
        Ok(AppSocket { access: access.clone(), socket, file, returning })
    }

    /// Serves applications on it with a thread.
    ///
    /// # Errors
    /// [`ListenError::System`]; the socket is gone then.
    pub fn serve(self, server: AppServer) -> Result<AppListener, ListenError> {
        let AppSocket { access, socket, file, returning } = self;
        let (returning, return_file) = match returning {
            Some(Returning { sockets, file, credentials }) => {
                (Some((sockets, credentials)), Some(file))
            }
            None => (None, None),
        };
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(ListenError::at(file.path(), "eventfd"))?);
        let server = Arc::new(Mutex::new(server));
        let mut serving = Serving {
            socket,
            stop: Arc::clone(&stop),
            server: Arc::clone(&server),
            access,
            returning,
            arrivals: 0,
            applications: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("applications".into())
            .spawn(move || serving.run())
            .map_err(ListenError::at(file.path(), "thread"))?;
        Ok(AppListener { server, stop, thread: Some(thread), file, _return_file: return_file })
    }
}

/// Serves applications until it is dropped.
pub struct AppListener {
    server: Arc<Mutex<AppServer>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Behind the thread, which ends first.
    file: SocketFile,
    _return_file: Option<SocketFile>,
}

impl AppListener {
    /// [Binds](AppSocket::bind) a socket and [serves](AppSocket::serve) applications on it.
    ///
    /// # Errors
    /// Those of both.
    pub fn start(
        path: &Path,
        access: &Access,
        server: AppServer,
    ) -> Result<AppListener, ListenError> {
        AppSocket::bind(path, access)?.serve(server)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The server, for reports of open queues and sockets.
    pub fn shared_server(&self) -> Arc<Mutex<AppServer>> {
        Arc::clone(&self.server)
    }

    /// The server, for a report of open queues and sockets. Keep it for a moment only: applications wait for it.
    pub fn server(&self) -> MutexGuard<'_, AppServer> {
        lock(&self.server)
    }
}

impl Drop for AppListener {
    fn drop(&mut self) {
        // The only way to fail is a full counter: then it is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(server: &Mutex<AppServer>) -> MutexGuard<'_, AppServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sockets that are to be served now.
struct Ready {
    /// An application wants to connect.
    connects: bool,
    /// Those, by number, on which one wants to show a credential.
    returns: Vec<usize>,
    /// Those that have sent something or are gone.
    applications: Vec<i32>,
}

struct Serving {
    socket: OwnedFd,
    stop: Arc<OwnedFd>,
    server: Arc<Mutex<AppServer>>,
    access: Access,
    returning: Option<(Vec<OwnedFd>, Credentials)>,
    /// How many have connected.
    arrivals: u64,
    /// By the number of the connection's descriptor.
    applications: BTreeMap<i32, Application>,
}

impl Serving {
    fn run(&mut self) {
        while let Some(Ready { connects, returns, applications }) = self.wait() {
            if applications.is_empty() && !connects && returns.is_empty() {
                let mut server = lock(&self.server);
                if server.is_look_due() {
                    let _ = server.settle();
                }
            }
            for number in applications {
                self.serve(number);
            }
            if connects {
                self.accept(None);
            }
            for number in returns {
                self.accept(Some(number));
            }
        }
        let all: Vec<i32> = self.applications.keys().copied().collect();
        all.into_iter().for_each(|number| self.hang_up(number));
    }

    /// Waits until something happens. `None`: stop.
    fn wait(&self) -> Option<Ready> {
        let full = self.applications.len() >= MAX_CONNECTIONS;
        let listens = if full { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        let returning = self.returning.iter().flat_map(|(sockets, _)| sockets);
        let sockets = std::iter::once(&self.socket).chain(returning);
        fds.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), listens)));
        let first = fds.len();
        let connections = self.applications.values().map(|a| &a.connection);
        fds.extend(connections.map(|connection| PollFd::new(connection, PollFlags::IN)));
        let timeout = lock(&self.server).awaits_connections().then_some(PORTS_PERIOD);
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != Errno::INTR
        {
            tracing::error!(%error, "applications are not served any more: poll failed");
            return None;
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if is_ready(&fds[0]) {
            return None;
        }
        let numbers = self.applications.keys().copied().zip(&fds[first..]);
        let ready = numbers.filter(|(_, fd)| is_ready(fd)).map(|(number, _)| number);
        Some(Ready {
            connects: is_ready(&fds[1]),
            returns: (0..first - 2).filter(|number| is_ready(&fds[2 + number])).collect(),
            applications: ready.collect(),
        })
    }

    /// Accepts an application: one that is admitted by its user, or at the socket of this number one that will show a
    /// credential.
    fn accept(&mut self, returning: Option<usize>) {
        let (returns, own) = (returning.is_some(), &self.socket);
        let returning = returning.zip(self.returning.as_ref());
        let listening = returning.and_then(|(number, (sockets, _))| sockets.get(number));
        let listening = listening.unwrap_or(own);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(listening, flags) else { return };
        let Ok(who) = sockopt::socket_peercred(&socket) else { return };
        let (user, group) = (who.uid.as_raw(), who.gid.as_raw());
        if !returns && !self.access.admits(user, group) {
            tracing::warn!(
                uid = user,
                gid = group,
                "an application was turned away; see apps-users"
            );
            return;
        }
        let pid = who.pid.as_raw_nonzero().get().unsigned_abs();
        let session = Session::new(Identity { name: String::new(), pid, uid: user });
        let admitted = (!returns).then_some((user, group));
        let number = socket.as_raw_fd();
        let (connection, arrival) = (Connection::over(socket), self.arrivals);
        self.arrivals += 1;
        let application = Application { connection, session, admitted, pid, uid: user, arrival };
        self.applications.insert(number, application);
        let unproved = self.applications.iter().filter(|(_, there)| !there.is_admitted());
        if unproved.clone().count() > MAX_UNPROVED
            && let Some((&oldest, _)) = unproved.min_by_key(|(_, there)| there.arrival)
        {
            self.hang_up(oldest);
        }
    }

    /// The answer to a request, and whether the connection goes on.
    fn answer(&mut self, number: i32, request: Request) -> Option<(Answer, bool)> {
        let application = self.applications.get_mut(&number)?;
        let credentials = self.returning.as_ref().map(|(_, credentials)| credentials);
        let done = |response| Some(((response, Vec::new()), true));
        match (request, application.admitted, credentials) {
            (Request::Present { credential }, None, Some(credentials)) => {
                if application.present(&credential, &self.access, credentials) {
                    return done(Response::Done);
                }
                let Application { uid, pid, .. } = *application;
                // Not a warning: any process may fail here as often as it likes, and would fill the log.
                tracing::debug!(uid, pid, "a process was turned away: its credential is not valid");
                let message =
                    "the credential is not one of this stack's, or its user is not admitted";
                Some((refused(Refusal::Permission, message.into()), false))
            }
            (_, None, _) => {
                let message = "show a credential first";
                Some((refused(Refusal::Permission, message.into()), false))
            }
            (Request::Credential, Some((user, group)), Some(credentials)) => {
                done(Response::Credential { credential: credentials.issue(user, group) })
            }
            (Request::Present { .. }, Some(_), Some(_)) => {
                let message = "the connection is admitted already";
                Some((refused(Refusal::Protocol, message.into()), true))
            }
            (request, Some(_), _) => {
                Some((application.session.answer(&mut lock(&self.server), request), true))
            }
        }
    }

    /// Answers an application's requests, up to the limit of a turn. Answers are sent once workers have
    /// carried out the changes, so that these are in effect for all packets that arrive afterwards.
    fn serve(&mut self, number: i32) {
        let mut answers: Vec<Answer> = Vec::new();
        let mut gone = false;
        while answers.len() < REQUESTS_PER_TURN && !gone {
            let Some(application) = self.applications.get(&number) else { return };
            match application.connection.receive::<Request>() {
                Ok((request, _)) => {
                    let Some((answer, goes_on)) = self.answer(number, request) else { return };
                    answers.push(answer);
                    gone = !goes_on;
                }
                Err(ControlError::System { source: Errno::AGAIN, .. }) => break,
                // No request has descriptors: those that came all the same are dropped.
                Err(
                    error @ (ControlError::Malformed(_)
                    | ControlError::TooLong
                    | ControlError::NoDescriptors),
                ) => {
                    gone = !application.is_admitted();
                    answers.push(refused(Refusal::Protocol, error.to_string()));
                }
                Err(_) => gone = true,
            }
        }
        let application = self.applications.get(&number);
        // Without being admitted a process has changed nothing, and so it can wake no worker.
        if !answers.is_empty() && application.is_some_and(Application::is_admitted) {
            // A worker that is stuck is reported by the next request.
            let _ = lock(&self.server).settle();
        }
        if let Some(application) = application {
            gone |= answers.iter().any(|answer| application.send(answer).is_err());
        }
        if gone {
            self.hang_up(number);
        }
    }

    fn hang_up(&mut self, number: i32) {
        let Some(mut application) = self.applications.remove(&number) else { return };
        if !application.is_admitted() {
            return;
        }
        let mut server = lock(&self.server);
        application.session.close(&mut server);
        if server.awaits_connections() {
            // The next program may be about to bind them.
            let _ = server.settle();
        }
    }
}
