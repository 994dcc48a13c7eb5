//! A record that outlives the process.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Record;

/// No record is longer: a rule is some 800 bytes of it.
const LONGEST: u64 = 256 << 20;

/// What can be wrong with the file of a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// It cannot be read or written.
    #[error("{path}: {source}; may you write there?", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It holds something else.
    #[error(
        "{path} is no record of steering ({reason}); remove it if nothing is steered on this device",
        path = path.display()
    )]
    Garbage {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The file of the record of one device in one network namespace. It goes when the machine restarts,
/// as the device's settings do.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Where records are kept.
    pub const FOLDER: &str = "/run/weever";

    /// The file for `device` of the calling thread's network namespace, in `folder`.
    ///
    /// # Errors
    /// [`PersistError::File`] if `/proc` does not tell the namespace.
    pub fn of(folder: &Path, device: &str) -> Result<StateFile, PersistError> {
        let namespace = PathBuf::from("/proc/thread-self/ns/net");
        let inode = fs::metadata(&namespace).map(|meta| meta.ino());
        let inode = inode.map_err(|source| PersistError::File { path: namespace, source })?;
        Ok(StateFile { path: folder.join(format!("steer-{inode}-{device}.json")) })
    }

    /// Where it is.
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
        serde_json::from_slice(&bytes).map_err(|e| garbage(e.to_string()))
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
            fs::write(&beside, serde_json::to_vec(record)?)?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(|e| self.error(e))
    }

    fn error(&self, source: io::Error) -> PersistError {
        PersistError::File { path: self.path.clone(), source }
    }
}
