//! Applications on a Unix socket.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, listen, sockopt};
use weever_app_ring::control::{Connection, ControlError, Refusal, Request, seqpacket};

use crate::request::Identity;
use crate::server::AppServer;
use crate::session::{Answer, Session, refused};

/// The most applications that are served at once.
const MAX_CONNECTIONS: usize = 4096;
/// Requests of one application that are answered before the others get their turn.
const REQUESTS_PER_TURN: usize = 64;
/// How long to wait before ports of closed sockets are looked at.
const PORTS_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Whose applications may connect, beside root's and those of the user of this process.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Their users.
    pub users: Vec<u32>,
    /// The groups that they run with.
    pub groups: Vec<u32>,
}

impl Access {
    /// The permissions of the socket's file: the kernel keeps others away unless some are admitted.
    fn mode(&self) -> u32 {
        if self.users.is_empty() && self.groups.is_empty() { 0o600 } else { 0o666 }
    }

    fn admits(&self, user: u32, group: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        user == 0 || user == own || self.users.contains(&user) || self.groups.contains(&group)
    }
}

/// Why applications cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another stack serves applications there.
    #[error("another stack serves applications at {}; give this one another path", .0.display())]
    Taken(PathBuf),
    /// A system call failed.
    #[error("applications cannot be served at {}: {what}: {source}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The call.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The socket's file, which is gone with its stack.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Without the right to remove it, the next stack finds nobody behind it and replaces it.
        let _ = fs::remove_file(&self.0);
    }
}

/// A bound socket on which nobody is served yet: a stack takes its place before it takes devices and
/// gives up privileges. Programs that connect meanwhile wait.
pub struct AppSocket {
    access: Access,
    socket: OwnedFd,
    file: SocketFile,
}

impl AppSocket {
    /// Binds a socket at `path`. Applications without `access` cannot connect, or are disconnected at once.
    ///
    /// # Errors
    /// [`ListenError`]; nothing is left behind.
    pub fn bind(path: &Path, access: &Access) -> Result<AppSocket, ListenError> {
        let failed = |what| {
            move |source: io::Error| ListenError::System { path: path.to_owned(), what, source }
        };
        let errno = |what| move |errno: Errno| failed(what)(errno.into());
        // A file without a listener was left by a stack that was killed.
        match Connection::connect(path) {
            Ok(_) => return Err(ListenError::Taken(path.to_owned())),
            Err(ControlError::System { source: Errno::CONNREFUSED, .. }) => {
                fs::remove_file(path).map_err(failed("removing the file of a dead stack"))?;
            }
            Err(_) => {}
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("making its folder"))?;
        }
        let socket = seqpacket().map_err(errno("socket"))?;
        let address = SocketAddrUnix::new(path).map_err(errno("address"))?;
        bind(&socket, &address).map_err(errno("bind"))?;
        let file = SocketFile(path.to_owned());
        let permissions = fs::Permissions::from_mode(access.mode());
        fs::set_permissions(path, permissions).map_err(failed("permissions"))?;
        listen(&socket, 64).map_err(errno("listen"))?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(errno("ioctl"))?;
        Ok(AppSocket { access: access.clone(), socket, file })
    }

    /// Serves applications on it with a thread.
    ///
    /// # Errors
    /// [`ListenError::System`]; the socket is gone then.
    pub fn serve(self, server: AppServer) -> Result<AppListener, ListenError> {
        let AppSocket { access, socket, file } = self;
        let failed = |what, source| ListenError::System { path: file.0.clone(), what, source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(|errno| failed("eventfd", errno.into()))?);
        let server = Arc::new(Mutex::new(server));
        let mut serving = Serving {
            socket,
            stop: Arc::clone(&stop),
            server: Arc::clone(&server),
            access,
            applications: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("applications".into())
            .spawn(move || serving.run())
            .map_err(|source| failed("thread", source))?;
        Ok(AppListener { server, stop, thread: Some(thread), file })
    }
}

/// Serves applications until it is dropped.
pub struct AppListener {
    server: Arc<Mutex<AppServer>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Behind the thread, which ends first.
    file: SocketFile,
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
        &self.file.0
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

/// An application that is connected.
struct Application {
    connection: Connection,
    session: Session,
}

impl Application {
    fn send(&self, (response, descriptors): &Answer) -> Result<(), ControlError> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        self.connection.send(response, &descriptors)
    }
}

struct Serving {
    socket: OwnedFd,
    stop: Arc<OwnedFd>,
    server: Arc<Mutex<AppServer>>,
    access: Access,
    /// By the number of the connection's descriptor.
    applications: BTreeMap<i32, Application>,
}

impl Serving {
    fn run(&mut self) {
        while let Some((accepts, ready)) = self.wait() {
            if ready.is_empty() && !accepts {
                let mut server = lock(&self.server);
                if server.is_look_due() {
                    let _ = server.settle();
                }
            }
            for number in ready {
                self.serve(number);
            }
            if accepts {
                self.accept();
            }
        }
        let all: Vec<i32> = self.applications.keys().copied().collect();
        all.into_iter().for_each(|number| self.hang_up(number));
    }

    /// Waits until something happens: whether an application wants to connect, and those that have
    /// sent something or are gone. `None`: stop.
    fn wait(&self) -> Option<(bool, Vec<i32>)> {
        let full = self.applications.len() >= MAX_CONNECTIONS;
        let listens = if full { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&*self.stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket.as_fd(), listens),
        ];
        let connections = self.applications.values().map(|a| &a.connection);
        fds.extend(connections.map(|connection| PollFd::new(connection, PollFlags::IN)));
        let timeout = lock(&self.server).awaits_connections().then_some(PORTS_PERIOD);
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != Errno::INTR
        {
            tracing::error!(%error, "applications are not served any more: poll failed");
            return None;
        }
        if !fds[0].revents().is_empty() {
            return None;
        }
        let numbers = self.applications.keys().copied().zip(&fds[2..]);
        let ready = numbers.filter(|(_, fd)| !fd.revents().is_empty()).map(|(number, _)| number);
        Some((!fds[1].revents().is_empty(), ready.collect()))
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.socket, flags) else { return };
        let Ok(who) = sockopt::socket_peercred(&socket) else { return };
        if !self.access.admits(who.uid.as_raw(), who.gid.as_raw()) {
            let (uid, gid) = (who.uid.as_raw(), who.gid.as_raw());
            tracing::warn!(uid, gid, "an application was turned away; see apps-users");
            return;
        }
        let pid = who.pid.as_raw_nonzero().get().unsigned_abs();
        let identity = Identity { name: String::new(), pid, uid: who.uid.as_raw() };
        let number = socket.as_raw_fd();
        let connection = Connection::over(socket);
        let session = Session::new(identity);
        self.applications.insert(number, Application { connection, session });
    }

    /// Answers an application's requests, up to the limit of a turn. Answers are sent once workers have
    /// carried out the changes, so that these are in effect for all packets that arrive afterwards.
    fn serve(&mut self, number: i32) {
        let mut answers: Vec<Answer> = Vec::new();
        let mut gone = false;
        while answers.len() < REQUESTS_PER_TURN {
            let Some(application) = self.applications.get_mut(&number) else { return };
            match application.connection.receive::<Request>() {
                Ok((request, _)) => {
                    answers.push(application.session.answer(&mut lock(&self.server), request));
                }
                Err(ControlError::System { source: Errno::AGAIN, .. }) => break,
                Err(error @ (ControlError::Malformed(_) | ControlError::TooLong)) => {
                    answers.push(refused(Refusal::Protocol, error.to_string()));
                }
                Err(_) => {
                    gone = true;
                    break;
                }
            }
        }
        if !answers.is_empty() {
            // A worker that is stuck is reported by the next request.
            let _ = lock(&self.server).settle();
        }
        if let Some(application) = self.applications.get(&number) {
            gone |= answers.iter().any(|answer| application.send(answer).is_err());
        }
        if gone {
            self.hang_up(number);
        }
    }

    fn hang_up(&mut self, number: i32) {
        let Some(mut application) = self.applications.remove(&number) else { return };
        let mut server = lock(&self.server);
        application.session.close(&mut server);
        if server.awaits_connections() {
            // The next program may be about to bind them.
            let _ = server.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_admitted_by_user_or_group_only() {
        let own = rustix::process::geteuid().as_raw();
        let closed = Access::default();
        assert!(closed.admits(0, 7) && closed.admits(own, 7) && !closed.admits(4_000_000, 7));
        assert_eq!(closed.mode(), 0o600);
        let open = Access { users: vec![4_000_000], groups: vec![8] };
        assert!(open.admits(4_000_000, 7) && open.admits(4_000_001, 8));
        assert!(!open.admits(4_000_001, 7));
        assert_eq!(open.mode(), 0o666, "each connection is checked when it is made");
    }
}
