//! Where applications find the stack: a socket with a file at a path.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen};
use weever_app_ring::control::{Connection, ControlError, seqpacket};

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

impl ListenError {
    /// For the failure of a call at a path.
    pub(crate) fn at<E: Into<io::Error>>(
        path: &Path,
        what: &'static str,
    ) -> impl FnOnce(E) -> ListenError {
        move |error| ListenError::System { path: path.to_owned(), what, source: error.into() }
    }
}

/// The socket's file, which is gone with its stack.
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Without the right to remove it, the next stack finds nobody behind it and replaces it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes sure that no other stack serves applications at a path, and that its folder is there.
pub(crate) fn take_place(path: &Path) -> Result<(), ListenError> {
    // A file without a listener was left by a stack that was killed.
    match Connection::connect(path) {
        Ok(_) => return Err(ListenError::Taken(path.to_owned())),
        Err(ControlError::System { source: Errno::CONNREFUSED, .. }) => {
            let removed = fs::remove_file(path);
            removed.map_err(ListenError::at(path, "removing the file of a dead stack"))?;
        }
        Err(_) => {}
    }
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.map_err(ListenError::at(path, "making its folder"))
}

/// A socket at a path, with a file of these permissions, on which programs may connect from now on.
pub(crate) fn open(path: &Path, mode: u32) -> Result<(OwnedFd, SocketFile), ListenError> {
    let socket = seqpacket().map_err(ListenError::at(path, "socket"))?;
    let address = SocketAddrUnix::new(path).map_err(ListenError::at(path, "address"))?;
    bind(&socket, &address).map_err(ListenError::at(path, "bind"))?;
    let file = SocketFile(path.to_owned());
    let permissions = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    permissions.map_err(ListenError::at(path, "permissions"))?;
    listen(&socket, 64).map_err(ListenError::at(path, "listen"))?;
    rustix::io::ioctl_fionbio(&socket, true).map_err(ListenError::at(path, "ioctl"))?;
    Ok((socket, file))
}

/// A socket at an abstract name; in words, why there is none.
pub(crate) fn open_name(name: &[u8]) -> Result<OwnedFd, String> {
    let failed = |error: Errno| match error {
        Errno::ADDRINUSE => owner_of(name),
        error => format!("cannot be had: {error}"),
    };
    let address = SocketAddrUnix::new_abstract_name(name).map_err(failed)?;
    let socket = seqpacket().map_err(failed)?;
    bind(&socket, &address).map_err(failed)?;
    listen(&socket, 64).map_err(failed)?;
    rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
    Ok(socket)
}

/// Who has a name.
fn owner_of(name: &[u8]) -> String {
    match Connection::connect_to_name(name).and_then(|there| there.peer_user()) {
        Ok(user) => format!("is taken by a process of user {user}; end it (ss -xlp names it)"),
        Err(_) => "is taken (ss -xp names the process)".into(),
    }
}
