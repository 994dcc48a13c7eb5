//! Frames that are not in the channel's memory but in one of the stack's own, out of which packets are received and
//! sent, so that none of them is copied at the border.
//!
//! The channel's memory has, instead of frames, the numbers of those that the application has at first. From then on
//! it always has as many: [`StackEnd::swap`](crate::StackEnd::swap) gives it the frame of a packet for an empty one,
//! and [`StackEnd::complete_with`](crate::StackEnd::complete_with) another for the one that it sends. Numbers count
//! through the whole memory; the same table as ever says which of them the application may name.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

use crate::layout::{ChannelError, Geometry, MOST_ELSEWHERE};
use crate::mapping::{Mapping, system};

/// A memory of the stack's, some of whose frames an application gets.
pub struct FrameMemory {
    /// Its memfd.
    pub memfd: OwnedFd,
    /// How many frames it has; they are as long as the channel's geometry says, one behind the other.
    pub frames: u32,
    /// What keeps the application's frames from others: dropped when neither end in this process can reach them.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Such a memory as a channel has it.
pub(crate) struct Elsewhere {
    mapping: Mapping,
    memfd: OwnedFd,
    /// Dropped behind the channel's last use.
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl Elsewhere {
    /// Maps it, after checking that its size is that of so many frames at least and stays so.
    pub(crate) fn map(
        memfd: OwnedFd,
        (frames, geometry): (u32, Geometry),
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Elsewhere, ChannelError> {
        let refuse = |why| Err(ChannelError::NotAChannel(why));
        if u64::from(frames) > MOST_ELSEWHERE || frames < geometry.frames {
            return refuse("it says that it has an impossible number of frames elsewhere");
        }
        let seals = fcntl_get_seals(&memfd);
        if !seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return refuse("the memory of its frames is no memfd of a sealed size");
        }
        let size = u64::from(frames) * u64::from(geometry.frame_size);
        let len = usize::try_from(size);
        let has = fstat(&memfd).map_err(system("fstat"))?.st_size as u64;
        let Some(len) = len.ok().filter(|_| has >= size) else {
            return refuse("the memory of its frames is too short");
        };
        Ok(Elsewhere { mapping: Mapping::of(&memfd, len)?, memfd, _keep: keep })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    pub(crate) fn memfd(&self) -> &OwnedFd {
        &self.memfd
    }
}

/// Values of this process by the memfd that they are of. An application with the stack in its own process finds the
/// memory of the stack's end there: nothing is mapped twice, and the frames are kept as long as either end is.
pub(crate) struct Known<T>(Mutex<Vec<(Identity, Weak<T>)>>);

/// Device and number of a file.
type Identity = (u64, u64);

fn identity(memfd: impl AsFd) -> Option<Identity> {
    fstat(memfd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

impl<T> Known<T> {
    pub(crate) const fn new() -> Known<T> {
        Known(Mutex::new(Vec::new()))
    }

    pub(crate) fn note(&self, memfd: impl AsFd, value: &Arc<T>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, value)| value.strong_count() > 0);
        known.extend(identity(memfd).map(|identity| (identity, Arc::downgrade(value))));
    }

    pub(crate) fn find(&self, memfd: impl AsFd) -> Option<Arc<T>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = if known.is_empty() { None } else { identity(memfd) }?;
        known.iter().find(|(there, _)| *there == wanted).and_then(|(_, value)| value.upgrade())
    }
}
