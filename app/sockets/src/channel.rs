//! The channels of a queue, and frames on their way back to them.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use weever_app_ring::{AppEnd, Frame};

/// One worker's channel.
pub(crate) struct Channel {
    pub(crate) end: AppEnd,
    /// Wakes the worker.
    pub(crate) wake: OwnedFd,
}

/// Frames of datagrams that were dropped, by channel, until the queue takes them back. Datagrams may
/// be dropped anywhere, also by other threads and after the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returns(Arc<Mutex<Vec<(usize, Frame)>>>);

impl Returns {
    pub(crate) fn give_back(&self, channel: usize, frames: impl Iterator<Item = Frame>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(frames.map(|frame| (channel, frame)));
    }

    /// Releases what has come back.
    pub(crate) fn take_back(&self, channels: &mut [Channel]) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (channel, frame) in waiting.drain(..) {
            channels[channel].end.release(frame);
        }
    }
}
