//! The task that waits for a queue on behalf of all tasks that use its streams.
//!
//! It puts what has happened into the inboxes, lets the tasks run that wait for it, and commits all that
//! they have written in one go; a task that writes on its own account wakes it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::task::{AbortHandle, spawn_local, yield_now};

use super::AsyncQueue;
use crate::error::Error;
use crate::events::{Event, Look};
use crate::octets::{Octets, StreamBuf};
use crate::queue::AppQueue;
use crate::stream::{TcpListener, TcpStream};

/// Events that the driver takes before it lets tasks run.
const AT_ONCE: usize = 256;

/// The driver's task ends with the last user.
pub(super) struct Driver {
    pub(super) shared: Rc<Shared>,
    task: AbortHandle,
}

impl Driver {
    /// Starts the task that waits for the queue.
    pub(super) fn start(queue: AsyncQueue) -> Driver {
        let shared = Rc::new(Shared { queue, state: RefCell::default(), driver: Cell::default() });
        let task = spawn_local(drive(Rc::clone(&shared))).abort_handle();
        Driver { shared, task }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Shared {
    queue: AsyncQueue,
    pub(super) state: RefCell<State>,
    /// Wakes the driver.
    driver: Cell<Option<Waker>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) streams: HashMap<TcpStream, Inbox>,
    pub(super) listeners: HashMap<TcpListener, Waiting>,
    /// Tasks whose request found the ring full, in the driver's next turn.
    retry: Vec<Waker>,
    /// Streams to close or to reset, for which the ring was full.
    closing: Vec<(TcpStream, bool)>,
    /// Why the queue is of no more use.
    failed: Option<(io::ErrorKind, String)>,
}

/// What has happened to a stream, and who waits for it.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) octets: VecDeque<Octets>,
    pub(super) connected: bool,
    /// The peer sends no more.
    pub(super) finished: bool,
    /// An errno.
    pub(super) failed: Option<u16>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Inbox {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) accepted: VecDeque<TcpStream>,
    pub(super) wakers: Vec<Waker>,
}

impl State {
    /// The error of a queue that is of no more use.
    pub(super) fn check(&self) -> io::Result<()> {
        let failed = self.failed.as_ref();
        failed.map_or(Ok(()), |(kind, text)| Err(io::Error::new(*kind, text.clone())))
    }

    fn note(&mut self, event: Event<'_>) {
        match event {
            Event::Accepted(listener, stream) => {
                let Some(waiting) = self.listeners.get_mut(&listener) else { return };
                waiting.accepted.push_back(stream);
                waiting.wakers.drain(..).for_each(Waker::wake);
                self.streams.insert(stream, Inbox { connected: true, ..Inbox::default() });
            }
            Event::Octets(octets) => {
                // Of a stream that was dropped, they are dropped.
                if let Some(inbox) = self.streams.get_mut(&octets.stream()) {
                    inbox.octets.push_back(octets.detach());
                    inbox.reader.take().into_iter().for_each(Waker::wake);
                }
            }
            Event::Connected(stream) => self.with(stream, |inbox| inbox.connected = true),
            Event::Writable(stream) => self.with(stream, |_| ()),
            Event::Finished(stream) => self.with(stream, |inbox| inbox.finished = true),
            Event::StreamFailed(stream, errno) => {
                self.with(stream, |inbox| inbox.failed = Some(errno));
            }
            Event::StreamClosed(stream) | Event::Released(stream) => {
                self.with(stream, |inbox| inbox.finished = true)
            }
            // There are no other sockets on this queue.
            _ => {}
        }
    }

    fn with(&mut self, stream: TcpStream, what: impl FnOnce(&mut Inbox)) {
        let Some(inbox) = self.streams.get_mut(&stream) else { return };
        what(inbox);
        inbox.wake();
    }

    fn fail(&mut self, error: Error) {
        let error = io::Error::from(error);
        self.failed = Some((error.kind(), error.to_string()));
        self.streams.values_mut().for_each(Inbox::wake);
        let waiting = self.listeners.values_mut().flat_map(|waiting| waiting.wakers.drain(..));
        waiting.chain(self.retry.drain(..)).for_each(Waker::wake);
    }
}

impl Shared {
    pub(super) fn queue(&self) -> &AppQueue {
        self.queue.queue()
    }

    /// Has the driver commit soon.
    pub(super) fn kick(&self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    /// Has a task try again after the driver's next turn.
    pub(super) fn try_again(&self, task: &Context<'_>) {
        self.state.borrow_mut().retry.push(task.waker().clone());
        self.kick();
    }

    /// Closes a stream that nobody uses any more.
    pub(super) fn close(&self, stream: TcpStream) {
        let inbox = self.state.borrow_mut().streams.remove(&stream);
        let octets: Vec<_> = inbox.into_iter().flat_map(|inbox| inbox.octets).collect();
        // As on Linux: octets that nobody has read reset the peer.
        let lost = !octets.is_empty();
        octets.into_iter().for_each(|octets| drop(StreamBuf::attach(self.queue(), stream, octets)));
        if let Err(Error::WouldBlock) = end(self.queue(), stream, lost) {
            self.state.borrow_mut().closing.push((stream, lost));
        }
        self.kick();
    }

    /// Takes what has happened. A stack in this thread turns once at the most before tasks read what has come.
    fn take(&self) -> Result<(), Error> {
        for _ in 0..AT_ONCE {
            let Look::Event(event) = self.queue().look()? else { break };
            self.state.borrow_mut().note(event);
        }
        Ok(())
    }

    /// Commits, and waits for something to happen.
    fn poll_turn(&self, task: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let closing = std::mem::take(&mut self.state.borrow_mut().closing);
        let is_full = |(stream, lost): &(TcpStream, bool)| {
            matches!(end(self.queue(), *stream, *lost), Err(Error::WouldBlock))
        };
        let closing: Vec<_> = closing.into_iter().filter(is_full).collect();
        self.queue().commit()?;
        let mut state = self.state.borrow_mut();
        state.closing.extend(closing);
        let again = !state.retry.is_empty() || !state.closing.is_empty();
        state.retry.drain(..).for_each(Waker::wake);
        drop(state);
        if again {
            return Poll::Ready(Ok(()));
        }
        self.driver.set(Some(task.waker().clone()));
        self.queue.poll_ready(task)
    }
}

/// Resets a stream of which octets are lost, and closes any other.
fn end(queue: &AppQueue, stream: TcpStream, lost: bool) -> Result<(), Error> {
    if lost { queue.abort(stream) } else { queue.close_stream(stream) }
}

async fn drive(shared: Rc<Shared>) {
    loop {
        let taken = shared.take();
        // The tasks that this has woken: what they write is committed together.
        yield_now().await;
        let turned = match taken {
            Ok(()) => poll_fn(|task| shared.poll_turn(task)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = turned {
            shared.state.borrow_mut().fail(error);
            return;
        }
    }
}
