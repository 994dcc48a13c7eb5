//! A record that outlives the process.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Record;

/// The longest record: a rule takes some 800 bytes of it.
const LONGEST: u64 = 256 << 20;
/// `SO_NETNS_COOKIE` of `<asm-generic/socket.h>`.
const NETNS_COOKIE: libc::c_int = 71;

/// The possible faults of a record's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The file cannot be read or written.
    #[error("{path}: {source}; may you write there?", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system does not tell which network namespace this is.
    #[error("cannot tell which network namespace this is: {0}")]
    Namespace(io::Error),
    /// The file holds something else.
    #[error(
        "{path} is no record of steering ({reason}); remove it if nothing is steered on this device",
        path = path.display()
    )]
    Garbage {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

/// The number of the calling thread's network namespace, which does not come again until the machine
/// restarts; on kernels before 5.14 it may.
fn namespace() -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let (mut cookie, mut size) = (0u64, size_of::<u64>() as libc::socklen_t);
    let to = (&raw mut cookie).cast();
    // SAFETY: the descriptor is the live socket's; `to` and `size` are live, and `size` is the number
    // of bytes available at `to`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, NETNS_COOKIE, to, &raw mut size)
    };
    match result {
        0 => Ok(cookie),
        _ => Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()),
    }
}

/// The file of the record of one device in one network namespace. It goes when the machine restarts,
/// as the device's settings do.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The folder of the records.
    pub const FOLDER: &str = "/run/weever";

    /// The file for an interface of the calling thread's network namespace, in `folder`. Another
    /// interface that gets the same name later has another file.
    ///
    /// # Errors
    /// [`PersistError::Namespace`].
    pub fn of(folder: &Path, ifindex: u32) -> Result<StateFile, PersistError> {
        let namespace = namespace().map_err(PersistError::Namespace)?;
        Ok(StateFile { path: folder.join(format!("steer-{namespace}-{ifindex}.json")) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record; an empty one if there is no file.
    ///
    /// # Errors
    /// [`PersistError`].
    pub fn load(&self) -> Result<Record, PersistError> {
        let garbage = |reason: String| PersistError::Garbage { path: self.path.clone(), reason };
        match fs::metadata(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
            Ok(meta) if meta.len() > LONGEST => return Err(garbage("it is too long".into())),
            _ => {}
        }
        let bytes = fs::read(&self.path).map_err(|e| self.error(e))?;
        Record::read(&bytes).map_err(|e| garbage(e.to_string()))
    }

    /// Writes the record; an empty one removes the file. A reader sees the old or the new one.
    ///
    /// # Errors
    /// [`PersistError::File`].
    pub fn save(&self, record: &Record) -> Result<(), PersistError> {
        if record.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.error(e)),
                _ => Ok(()),
            };
        }
        let write = || {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
            let beside = self.path.with_extension("new");
            fs::write(&beside, record.write()?)?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(|e| self.error(e))
    }

    fn error(&self, source: io::Error) -> PersistError {
        PersistError::File { path: self.path.clone(), source }
    }
}
