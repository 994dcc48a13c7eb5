//! The control socket's file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};
use weever_service_api::{Client, ClientError, Status, StatusRequest, socket as places};

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another stack answers there.
    #[error(
        "control socket {}: in use by {owner}; stop it with `weever stop --socket {}`, or {alternative}",
        path.display(), path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
        /// The stack that answers.
        owner: String,
        /// The user's alternative.
        alternative: &'static str,
    },
    /// There is a file that is no socket.
    #[error("control socket {}: there is a file that is no socket; choose another with --control", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// There is no such directory.
    #[error(
        "control socket {}: there is no directory {}; make it, or choose another with --control",
        path.display(), directory.display()
    )]
    NoDirectory {
        /// The socket.
        path: PathBuf,
        /// The missing directory.
        directory: PathBuf,
    },
    /// The system refused.
    #[error("control socket {}: cannot {what}: {source}; choose another with --control", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Stacks lock this file while they look for a socket's owner. It stays: removing it would be a race.
const LOCK_FILE: &str = ".weever.lock";
/// How long another process may take to bind in the same directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How long a stack may take to name itself.
const OWNER_PATIENCE: Duration = Duration::from_secs(1);
const BACKLOG: i32 = 32;

/// A bound control socket, which only its owner may connect to. Dropping it removes the file.
#[derive(Debug)]
pub struct ControlSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: the file is removed only while it is still ours.
    identity: (u64, u64),
}

impl ControlSocket {
    /// Listens on `path`, in an existing directory. A socket without a listener is replaced. Blocks
    /// for a second or two at most.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn bind(path: &Path) -> Result<ControlSocket, ControlError> {
        let fail = |what| {
            let path = path.to_owned();
            move |source| ControlError::Io { path, what, source }
        };
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        if !directory.exists() {
            let (path, directory) = (path.to_owned(), directory.to_owned());
            return Err(ControlError::NoDirectory { path, directory });
        }
        // Two stacks that both find a stale socket must not remove each other's fresh one.
        let _lock = lock(directory).map_err(fail("lock its directory"))?;
        clear(path)?;
        let listener = listen(path).map_err(fail("listen"))?;
        let identity = fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()));
        let identity = identity.map_err(fail("find it again"))?;
        Ok(ControlSocket { listener, path: path.to_owned(), identity })
    }

    /// Listens in the first of the usual directories that allows it, and makes that if it is
    /// missing.
    ///
    /// # Errors
    /// See [`ControlError`]; when no directory allows it, that of the first.
    pub fn bind_default(link: &str) -> Result<ControlSocket, ControlError> {
        let mut first_refusal = None;
        for directory in places::directories() {
            let path = places::in_directory(&directory, link);
            let made = make_directory(&directory).map_err(|source| {
                let (path, what) = (path.clone(), "make its directory");
                ControlError::Io { path, what, source }
            });
            match made.and_then(|()| ControlSocket::bind(&path)) {
                Err(ControlError::InUse { path, owner, .. }) => {
                    // Another socket would not help: a device carries one stack.
                    let alternative =
                        "use another device: a device carries one stack in a network namespace";
                    return Err(ControlError::InUse { path, owner, alternative });
                }
                Err(refusal @ ControlError::Io { .. }) => {
                    first_refusal.get_or_insert(refusal);
                }
                other => return other,
            }
        }
        Err(first_refusal.expect("there is always the system's directory"))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if ours {
            drop(fs::remove_file(&self.path));
        }
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Locks the directory against others that put sockets into it. The lock is on a file that only they can
/// open: any user who can read a directory can lock the directory itself, and would hold up every start.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file =
        options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(directory.join(LOCK_FILE))?;
    let owner = file.metadata()?.uid();
    if owner != nix::unistd::geteuid().as_raw() && owner != fs::metadata(directory)?.uid() {
        let problem = format!("{LOCK_FILE} there belongs to user {owner}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, _)) if Instant::now() < deadline => file = back,
            Err((_, errno)) => return Err(errno.into()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes sure that no stack listens at `path`.
fn clear(path: &Path) -> Result<(), ControlError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ControlError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    let owner = match Client::connect_within(path, OWNER_PATIENCE) {
        Err(ClientError::NotRunning { .. }) => None,
        Err(e) => Some(format!("a process that does not answer ({e})")),
        Ok(mut client) => Some(match client.call(&StatusRequest {}) {
            Ok(Status { pid, link, .. }) => format!("a stack on {link}, process {pid}"),
            Err(e) => format!("a process that does not answer ({e})"),
        }),
    };
    match owner {
        Some(owner) => {
            let (path, alternative) = (path.to_owned(), "choose another with --control");
            Err(ControlError::InUse { path, owner, alternative })
        }
        None => fs::remove_file(path).map_err(|source| ControlError::Io {
            path: path.to_owned(),
            what: "replace a dead process's socket",
            source,
        }),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The file gets its permissions from the socket when it is bound (unix(7)): so there is no
    // moment in which others may connect.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(OwnedFd::from(socket).into())
}
