//! A thread's queue: connecting, committing and waiting. Its sockets are opened in `open`, datagrams come and go in
//! `traffic`, TCP is in `streams` and `stream_events`, streams of several processes are in `sharing`, and flows that
//! are registered with a policy in `flows`.

mod flows;
mod open;
mod options;
mod sharing;
mod stream_events;
mod streams;
mod traffic;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use weever_app_ring::{Frame, Frames, Geometry};

pub use flows::Flow;
pub use open::Way;

use crate::backend::{Backend, Process, QueueConfig};
use crate::error::Error;
use crate::opening::{Channel, OpenedQueue, Openings, open_queue};
use crate::stream::Streams;
use crate::table::Table;

/// An application's queue: its sockets, and the rings to every worker of the stack. It belongs to one
/// thread at a time; several threads have a queue each. Dropping it closes its sockets.
pub struct AppQueue {
    config: QueueConfig,
    /// Its number and key.
    name: Cell<(u32, u64)>,
    backend: RefCell<Box<dyn Backend>>,
    /// The stack writes to it when this thread sleeps.
    wake: OwnedFd,
    channels: Vec<Channel>,
    /// The channel that is read next.
    current: Cell<usize>,
    table: RefCell<Table>,
    openings: RefCell<Openings>,
    pub(crate) streams: RefCell<Streams>,
    /// Ports that connections begin at, if they have to be taken before.
    taken_ports: RefCell<Option<BTreeSet<u16>>>,
}

impl AppQueue {
    /// Connects to a stack in a process of its own and opens a queue. Blocks until the stack has
    /// answered.
    ///
    /// # Errors
    /// [`Error::NoStack`]; [`Error::Refused`] by a stack of another version, or when the geometry is
    /// not possible.
    pub fn connect(config: &QueueConfig) -> Result<AppQueue, Error> {
        AppQueue::over(Box::new(Process::connect(config)?), config)
    }

    /// Opens a queue on a stack that is reached in another way.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn over(mut backend: Box<dyn Backend>, config: &QueueConfig) -> Result<AppQueue, Error> {
        let OpenedQueue { name, wake, channels, shares_ports } =
            open_queue(backend.as_mut(), config)?;
        Ok(AppQueue {
            config: config.clone(),
            name: Cell::new(name),
            backend: RefCell::new(backend),
            wake,
            channels,
            current: Cell::new(0),
            table: RefCell::default(),
            openings: RefCell::default(),
            streams: RefCell::default(),
            taken_ports: RefCell::new(shares_ports.then(BTreeSet::new)),
        })
    }

    /// Hands everything sent to the stack, and frames that are free again. A system call only for
    /// workers that sleep. With the stack in this thread, [`next`](Self::next) does the same when there is nothing
    /// to receive.
    ///
    /// # Errors
    /// [`Error::Channel`]; with the stack in this process, [`Error::Disconnected`] when it has failed.
    pub fn commit(&self) -> Result<(), Error> {
        self.publish()?;
        self.backend.borrow_mut().work().map(drop)
    }

    /// As [`commit`](Self::commit), but a stack in this process takes its turn later: at the next `commit`, with the
    /// next look for what has come, or when its thread has not turned it for a while.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn publish(&self) -> Result<(), Error> {
        self.commit_read()?;
        self.channels.iter().try_for_each(Channel::commit)
    }

    /// Has the stack know which octets were read without waking a worker that sleeps, which hears of it with the next
    /// [`commit`](Self::commit), or when this process ends. For few octets: the peer may wait for room for many.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn publish_read(&self) -> Result<(), Error> {
        self.commit_read()?;
        self.channels.iter().for_each(|channel| channel.end.borrow_mut().publish());
        Ok(())
    }

    /// Has a stack in this thread turn once, when the rings have nothing more; true if it did something. The batch
    /// has come to its end, so its answers go with this turn, and the frames that were read serve the next batch.
    fn turn(&self) -> Result<bool, Error> {
        let mut backend = self.backend.borrow_mut();
        if backend.has_worker() {
            self.publish()?;
        }
        backend.work()
    }

    /// [Commits](Self::commit), then waits until there is something to receive, frames have come
    /// back, or the timeout has passed; `None` waits as long as it takes. True when there is
    /// something. It polls for [`QueueConfig::spin`] before it sleeps.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the stack is gone, [`Error::Channel`], [`Error::System`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.commit()?;
        // The clock is not read while there is work.
        let mut start = None;
        loop {
            if self.is_ready()? {
                return Ok(true);
            }
            if self.backend.borrow_mut().work()? {
                continue;
            }
            let passed = start.get_or_insert_with(Instant::now).elapsed();
            let left = timeout.map(|timeout| timeout.saturating_sub(passed));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            if passed < self.config.spin {
                std::hint::spin_loop();
                continue;
            }
            if !self.arm_channels()? {
                return Ok(true);
            }
            let slept = self.backend.borrow_mut().sleep(self.wake.as_fd(), left);
            self.acknowledge();
            slept?;
        }
    }

    /// Whether there is something to receive, or a stream can be written again.
    fn is_ready(&self) -> Result<bool, Error> {
        if !self.streams.borrow().is_empty() {
            self.reap()?;
        }
        if !self.streams.borrow().found.is_empty() {
            return Ok(true);
        }
        for channel in &self.channels {
            if channel.end.borrow_mut().has_received()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For an event loop that sleeps by itself: has the stack write to this queue's
    /// [descriptor](AsFd) when something comes. False when there is something already. After the
    /// descriptor became readable, [`acknowledge`](Self::acknowledge) it.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn arm(&self) -> Result<bool, Error> {
        let nothing = self.arm_channels()?;
        if nothing {
            self.backend.borrow_mut().hand_over();
        }
        Ok(nothing)
    }

    fn arm_channels(&self) -> Result<bool, Error> {
        let streams = self.streams.borrow();
        let mut nothing = streams.found.is_empty();
        let has_streams = !streams.is_empty();
        for channel in &self.channels {
            let mut end = channel.end.borrow_mut();
            // Frames that `commit` has found make streams writable, which `next` finds out.
            nothing &= end.arm()? && !(has_streams && end.has_returned());
        }
        if !nothing {
            self.disarm();
        }
        Ok(nothing)
    }

    fn disarm(&self) {
        self.channels.iter().for_each(|channel| channel.end.borrow_mut().disarm());
    }

    /// Makes the descriptor unreadable again.
    pub fn acknowledge(&self) {
        let _nothing_there = rustix::io::read(&self.wake, &mut [0; 8]);
        self.disarm();
    }

    /// Asks whether the stack is still there, by a system call: for a program that polls, and never
    /// waits.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when it is not.
    pub fn check(&self) -> Result<(), Error> {
        self.backend.borrow_mut().check()
    }

    /// A descriptor of its own that becomes readable when the stack ends, or answers a request; `None`
    /// for a stack in this process.
    pub fn end_descriptor(&self) -> Option<std::io::Result<OwnedFd>> {
        let backend = self.backend.borrow();
        backend.end_descriptor().map(|fd| fd.try_clone_to_owned())
    }

    /// The number of the descriptor that becomes readable when the stack ends, or answers a request: the queue's own, not to
    /// be closed. `None` for a stack in this process.
    pub fn end_number(&self) -> Option<RawFd> {
        self.backend.borrow().end_descriptor().map(|fd| fd.as_raw_fd())
    }

    /// The descriptors that the queue holds, for a program that closes descriptors which are not its own.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let backend = self.backend.borrow();
        let own = [Some(self.wake.as_fd()), backend.end_descriptor()];
        let own = own.into_iter().flatten().map(|fd| fd.as_raw_fd());
        own.chain(self.channels.iter().flat_map(Channel::descriptors)).collect()
    }

    /// Frames that are free, and frames lent to the stack, over all channels. For checks: together
    /// with those in buffers they are all that there are.
    pub fn frames(&self) -> (usize, usize) {
        let held = self.channels.iter().map(|channel| channel.end.borrow().held());
        held.fold((0, 0), |(free, lent), (f, l)| (free + f, lent + l))
    }

    /// How many frames all channels have together. Those in which packets are received and sent may be fewer than were
    /// asked for.
    pub fn frame_count(&self) -> u32 {
        self.channels.iter().map(|channel| channel.end.borrow().geometry().frames).sum()
    }

    /// The sizes of rings and frames that were asked for.
    pub fn geometry(&self) -> Geometry {
        self.config.geometry
    }

    /// Whether it works in the frames in which the stack receives and sends, at one worker at least: a payload of a single
    /// frame is not copied there.
    pub fn is_zero_copy(&self) -> bool {
        self.channels.iter().any(|channel| channel.frames.is_trusted())
    }

    /// How many channels there are: one for each worker of the stack.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    #[inline]
    pub(crate) fn frames_of(&self, channel: u16) -> &Frames {
        &self.channels[usize::from(channel)].frames
    }

    #[inline]
    pub(crate) fn release(&self, channel: u16, frames: impl IntoIterator<Item = Frame>) {
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        frames.into_iter().for_each(|frame| end.release(frame));
    }
}

impl AsFd for AppQueue {
    /// Readable when the stack has woken this queue, after [`arm`](Self::arm).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl std::fmt::Debug for AppQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, sockets) = (&self.config.name, self.table.borrow().len());
        write!(f, "AppQueue({name}, {sockets} sockets, {} channels)", self.channels.len())
    }
}
