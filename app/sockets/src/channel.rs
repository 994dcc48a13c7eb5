//! The channel of one worker.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use weever_app_ring::{AppEnd, Frames};

use crate::error::Error;

/// One worker's channel. The end is borrowed for a moment at a time, never while the caller's code
/// runs.
pub(crate) struct Channel {
    pub(crate) end: RefCell<AppEnd>,
    /// The bytes of its frames, for what buffers hold.
    pub(crate) frames: Frames,
    /// Wakes the worker.
    wake: OwnedFd,
}

impl Channel {
    pub(crate) fn map(memory: OwnedFd, wake: OwnedFd) -> Result<Channel, Error> {
        let end = AppEnd::map(memory)?;
        let frames = end.frames().clone();
        Ok(Channel { end: RefCell::new(end), frames, wake })
    }

    pub(crate) fn commit(&self) -> Result<(), Error> {
        if self.end.borrow_mut().commit()? {
            // The only way to fail is a full counter: then it is readable already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        Ok(())
    }
}
