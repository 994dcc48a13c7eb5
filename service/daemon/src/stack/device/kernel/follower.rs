//! The thread that listens to the kernel and asks it for neighbours, and the questions on their way to it.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weever_block::Env;
use weever_blocks_std::host::{Neighbours, Neighbours6, Network, Resolver};
use weever_engine::monotonic;
use weever_link_sys::mirror::Mirror;
use weever_net::iface::IfaceId;

use super::{Heard, Kernel};
use crate::stack::device::links::DeviceNames;

/// The pause after the kernel has refused to answer.
const PAUSE: Duration = Duration::from_millis(100);

/// Keeps the network in step with the kernel. Dropping it ends the thread.
pub(in crate::stack) struct Follower {
    questions: Arc<Questions>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the thread.
struct Listener {
    mirror: Mirror,
    kernel: Kernel,
    host: Arc<Network>,
    neighbours: Arc<Neighbours>,
    neighbours6: Arc<Neighbours6>,
    names: Arc<DeviceNames>,
    questions: Arc<Questions>,
}

impl Follower {
    /// Follows the kernel for the host in `env`, and keeps the devices' names up to date.
    pub(in crate::stack) fn start(
        (mirror, kernel): (Mirror, Kernel),
        env: &Env,
        names: Arc<DeviceNames>,
    ) -> io::Result<Follower> {
        let questions = Arc::new(Questions::new()?);
        let asked = Arc::clone(&questions);
        let resolver = env.get_or_default::<Resolver>();
        resolver.ask_by(move |iface, ip| asked.ask(iface, ip));
        let missing = || io::Error::other("the environment has no host");
        let listener = Listener {
            mirror,
            kernel,
            host: env.get().ok_or_else(missing)?,
            neighbours: env.get().ok_or_else(missing)?,
            neighbours6: env.get().ok_or_else(missing)?,
            names,
            questions: Arc::clone(&questions),
        };
        let work = move || listener.run();
        let thread = thread::Builder::new().name("kernel".into()).spawn(work)?;
        Ok(Follower { questions, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.questions.end();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the panic was logged.
            drop(thread.join());
        }
    }
}

impl Listener {
    fn run(mut self) {
        self.kernel.known().into_iter().for_each(|heard| self.pass_on(heard));
        while let Some(asked) = self.questions.take() {
            self.listen();
            asked.into_iter().for_each(|(iface, ip)| self.answer(iface, ip));
            self.wait();
        }
    }

    fn listen(&mut self) {
        let mut heard = Vec::new();
        let Listener { mirror, kernel, .. } = self;
        if let Err(error) = mirror.poll(|event| heard.extend(kernel.learn(event))) {
            tracing::warn!("the kernel does not tell of its network: {error}");
            thread::sleep(PAUSE);
        }
        if self.kernel.is_news {
            self.names.refresh();
            let shaped = self.host.update(|network| {
                self.kernel.shape(network);
                Ok::<(), std::convert::Infallible>(())
            });
            let Ok(()) = shaped;
        }
        heard.into_iter().for_each(|heard| self.pass_on(heard));
    }

    fn pass_on(&self, Heard { iface, ip, mac }: Heard) {
        let now = monotonic();
        match (ip, mac) {
            (IpAddr::V4(v4), Some(mac)) => self.neighbours.adopt(iface, v4, mac, now),
            (IpAddr::V4(v4), None) => self.neighbours.withdraw(iface, v4, now),
            (IpAddr::V6(v6), Some(mac)) => self.neighbours6.adopt(iface, v6, mac, now),
            (IpAddr::V6(v6), None) => self.neighbours6.withdraw(iface, v6, now),
        }
    }

    /// Answers from the cache, and has the kernel resolve or confirm the neighbour.
    fn answer(&mut self, iface: IfaceId, ip: IpAddr) {
        let Some((device, mac)) = self.kernel.find(iface, ip) else { return };
        if mac.is_some() {
            self.pass_on(Heard { iface, ip, mac });
        }
        if let Err(error) = self.mirror.resolve(device, ip) {
            tracing::warn!(%ip, "the kernel cannot be asked for a neighbour: {error}");
        }
    }

    /// Waits until the kernel reports an event, or a neighbour is asked for.
    fn wait(&self) {
        let mirror = PollFd::new(self.mirror.as_fd(), PollFlags::POLLIN);
        let bell = PollFd::new(self.questions.bell(), PollFlags::POLLIN);
        match poll(&mut [mirror, bell], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                tracing::warn!("cannot wait for the kernel: {error}");
                thread::sleep(PAUSE);
            }
        }
    }
}

/// The most neighbours that are asked for at once: the caches repeat the others.
const MOST: usize = 1024;

/// Questions, each once, and a bell that wakes the thread that takes them.
#[derive(Debug)]
pub(super) struct Questions {
    waiting: Mutex<Waiting>,
    rope: UnixStream,
    bell: UnixStream,
}

#[derive(Debug, Default)]
struct Waiting {
    neighbours: BTreeSet<(IfaceId, IpAddr)>,
    /// The thread has ended: no more answers.
    ended: bool,
}

impl Questions {
    pub(super) fn new() -> io::Result<Questions> {
        let (rope, bell) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Questions { waiting: Mutex::default(), rope, bell })
    }

    /// Asks, without waiting. Only the first of several makes a system call.
    pub(super) fn ask(&self, iface: IfaceId, ip: IpAddr) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = waiting.neighbours.is_empty();
        if waiting.neighbours.len() < MOST {
            waiting.neighbours.insert((iface, ip));
        }
        drop(waiting);
        if is_first {
            self.ring();
        }
    }

    /// Ends the questions: [`take`](Self::take) then returns `None`.
    pub(super) fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.ring();
    }

    /// The questions since the last call; `None` after the [`end`](Self::end).
    pub(super) fn take(&self) -> Option<BTreeSet<(IfaceId, IpAddr)>> {
        let mut rings = [0; 64];
        while matches!((&self.bell).read(&mut rings), Ok(n) if n == rings.len()) {}
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        (!waiting.ended).then(|| std::mem::take(&mut waiting.neighbours))
    }

    /// The descriptor to wait on.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        match (&self.rope).write(&[1]) {
            Ok(_) => {}
            // A full counter has rung often enough.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => tracing::warn!("the kernel is not asked for a neighbour: {error}"),
        }
    }
}
