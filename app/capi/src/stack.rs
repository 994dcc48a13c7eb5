//! The stack that a queue is opened on: in a process of its own, or inside this one, where all queues that
//! name it by the same text share it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use weever_app_library::{LibraryError, Stack};
use weever_app_sockets::control::Refusal;
use weever_app_sockets::{AppQueue, Error, QueueConfig};

use crate::values::Failure;

/// A stack inside this process.
struct Inside {
    text: PathBuf,
    stack: Stack,
    queues: usize,
}

static INSIDE: Mutex<Vec<Inside>> = Mutex::new(Vec::new());

/// A queue's share of a stack inside this process, which ends with the last of them.
pub(crate) struct Share(PathBuf);

impl Drop for Share {
    fn drop(&mut self) {
        let mut inside = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = inside.iter().position(|there| there.text == self.0) else { return };
        inside[at].queues -= 1;
        if inside[at].queues == 0 {
            // Its threads end here, while nobody else can start the same on the device.
            drop(inside.swap_remove(at));
        }
    }
}

/// Opens a queue. A stack inside this process is started by the first queue that names it.
pub(crate) fn open(config: &QueueConfig) -> Result<(AppQueue, Option<Share>), Failure> {
    if !Stack::is_inside(config) {
        return Ok((AppQueue::connect(config).map_err(refused)?, None));
    }
    let mut inside = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = match inside.iter().position(|there| there.text == config.path) {
        Some(at) => at,
        None => {
            let stack = Stack::open(config)?;
            inside.push(Inside { text: config.path.clone(), stack, queues: 0 });
            inside.len() - 1
        }
    };
    inside[at].queues += 1;
    // Gives its count back if the queue is refused; declared first, so that the lock is free by then.
    let share = Share(config.path.clone());
    let stack = inside[at].stack.clone();
    drop(inside);
    let queue = stack.queue_as(config).map_err(refused)?;
    Ok((queue, Some(share)))
}

fn refused(error: Error) -> Failure {
    match error {
        // A slot is the only thing of a queue that can be in use.
        Error::Refused { kind: Refusal::InUse, message } => Failure::new(libc::EBUSY, message),
        other => other.into(),
    }
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Failure {
        let errno = match &error {
            LibraryError::Settings { .. } | LibraryError::Host(_) => libc::EINVAL,
            LibraryError::Device(_) => libc::ENODEV,
            LibraryError::Pool(_) => libc::ENOMEM,
            LibraryError::Thread(_) => libc::EAGAIN,
            LibraryError::Queue(_) => libc::EPROTO,
            _ => libc::EIO,
        };
        Failure::new(errno, error.to_string())
    }
}
