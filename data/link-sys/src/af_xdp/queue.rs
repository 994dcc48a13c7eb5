//! One queue of a device.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use weever_link::{LinkError, LinkQueue, QueueStats};
use weever_packet::{Buffer, Burst, Flags, Nanos, Pool, PoolCache};

use super::Steering;
use super::close::{DRAIN_TIMEOUT, FrameReturn, grace_period, unconsumed};
use super::frames::{Frames, METADATA};
use super::receive::Receiver;
use super::socket::Socket;
use super::transmit::Transmitter;

/// How often a sleeping worker is woken to lend frames to a device that has none.
const RELEND_EVERY: Nanos = 1_000_000;
/// How often a queue that receives nothing asks whether its device is still there.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// After how many polls in vain the clock is read to see whether it is time for that. After a
/// sleep the first one will do.
const IDLE_POLLS: u32 = 64;

/// One queue of a device. On drop the socket goes first, so that the kernel has let go of the
/// frames when those that can be proven free go home.
pub(super) struct XskQueue {
    pub(super) socket: Socket,
    pub(super) frame_return: FrameReturn,
    pub(super) receiver: Receiver,
    pub(super) transmitter: Transmitter,
    pub(super) steering: Arc<Steering>,
    /// Its number among the link's.
    pub(super) index: u16,
    pub(super) zero_copy: bool,
    /// How many share its device queue.
    sockets: u16,
    link: String,
    pool: Pool,
    idle: u32,
    /// Whether a worker has slept on the descriptor since the clock was read.
    waited: Cell<bool>,
    checked: Instant,
    stats: QueueStats,
    /// The time of the worker's turn.
    now: Nanos,
}

/// What a queue is, beside its socket.
pub(super) struct Facts<'a> {
    pub(super) link: &'a str,
    pub(super) index: u16,
    /// How many share its device queue.
    pub(super) sockets: u16,
    pub(super) mtu: u16,
    pub(super) flags: Flags,
    pub(super) pool: &'a Pool,
    /// How many frames the device may have to receive into.
    pub(super) lend: u32,
}

impl XskQueue {
    pub(super) fn new(socket: Socket, facts: &Facts<'_>, steering: Arc<Steering>) -> XskQueue {
        let frames = Frames::of(facts.pool);
        let most_out = socket.frames.completion.capacity();
        socket.frames.join();
        let room = if socket.metadata { METADATA } else { 0 };
        XskQueue {
            socket,
            frame_return: FrameReturn::new(facts.pool.clone()),
            receiver: Receiver::new(frames, facts.index, facts.flags, facts.lend),
            transmitter: Transmitter::new(frames, facts.mtu, most_out, room),
            steering,
            index: facts.index,
            zero_copy: false,
            sockets: facts.sockets,
            link: facts.link.to_owned(),
            pool: facts.pool.clone(),
            idle: 0,
            waited: Cell::new(false),
            checked: Instant::now(),
            stats: QueueStats::default(),
            now: 0,
        }
    }

    /// Frames are adopted into whatever cache is passed, which is only sound for the right pool.
    #[inline]
    fn check(&self, pool: &PoolCache) -> Result<(), LinkError> {
        if pool.draws_from(&self.pool) { Ok(()) } else { Err(self.wrong_pool()) }
    }

    #[cold]
    fn wrong_pool(&self) -> LinkError {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "a cache of another pool");
        LinkError::Io { link: self.link.clone(), what: "use of a queue", source }
    }

    /// Lends the device frames before the socket is bound.
    pub(super) fn lend(&mut self, pool: &mut PoolCache) {
        self.receiver.refill(&self.socket, pool, true);
    }

    /// Asks for the device when it is time. Nothing received is also what a zero-copy device
    /// looks like that waits to be woken, which the call does.
    #[cold]
    fn check_device(&mut self) -> Result<(), LinkError> {
        self.waited.set(false);
        if self.checked.elapsed() < CHECK_EVERY {
            return Ok(());
        }
        self.checked = Instant::now();
        match recv(&self.socket, &mut [0; 0], RecvFlags::DONTWAIT) {
            Err(errno) => self.sort(errno, "recvfrom"),
            Ok(_) => Ok(()),
        }
    }

    /// What a failed kick means. A device that is down may come up again, and what the kernel has
    /// no room for now is tried again in the next turn.
    fn sort(&self, errno: Errno, what: &'static str) -> Result<(), LinkError> {
        let link = self.link.clone();
        match errno {
            Errno::AGAIN
            | Errno::BUSY
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::NETDOWN
            | Errno::INTR => Ok(()),
            Errno::NXIO | Errno::NODEV => {
                Err(LinkError::Gone { link, why: "the interface was removed".into() })
            }
            other => Err(LinkError::Io { link, what, source: other.into() }),
        }
    }
}

impl LinkQueue for XskQueue {
    #[inline]
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.check(pool)?;
        let n = self.receiver.receive(&self.socket.rx, pool, burst, max, &mut self.stats);
        self.receiver.refill(&self.socket, pool, n > 0);
        if n > 0 {
            return Ok(n);
        }
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(IDLE_POLLS) || self.waited.get() {
            self.check_device()?;
        }
        Ok(0)
    }

    #[inline]
    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        self.check(pool)?;
        let rings = self.socket.tx_rings();
        Ok(self.transmitter.transmit(rings, pool, packets, &mut self.stats))
    }

    #[inline]
    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.check(pool)?;
        if let Err(errno) = self.transmitter.flush(&self.socket, self.zero_copy) {
            // In copy mode: one packet's frame has come back, but the device refused the packet.
            self.stats.tx_dropped += u64::from(errno == Errno::BUSY && !self.zero_copy);
            self.sort(errno, "sendto")?;
        }
        self.transmitter.reap(self.socket.tx_rings(), pool);
        Ok(())
    }

    fn unsent(&self) -> bool {
        self.transmitter.unsent()
    }

    fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// A device without frames receives nothing that would wake its worker: it is lent frames as soon as
    /// the pool has some again.
    fn next_deadline(&self) -> Option<Nanos> {
        self.receiver.is_starved().then(|| self.now.saturating_add(RELEND_EVERY))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.waited.set(true);
        Some(self.socket.as_fd())
    }

    /// Asks the kernel; a device that is gone leaves its counts at zero.
    fn stats(&self) -> QueueStats {
        let Ok(kernel) = self.socket.statistics() else { return self.stats };
        QueueStats {
            rx_dropped: kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0),
            rx_invalid: kernel.rx_invalid_descs,
            tx_dropped: self.stats.tx_dropped + kernel.tx_invalid_descs,
            // The device queue's, which each of its sockets is told.
            fill_empty: match self.index.is_multiple_of(self.sockets) {
                true => kernel.rx_fill_ring_empty_descs.unwrap_or(0),
                false => 0,
            },
            ..self.stats
        }
    }
}

impl XskQueue {
    /// Sends and takes frames back until `all` is so. Those that do not come back are lost to the
    /// pool: the kernel does not say by the transmit ring which packets it has not taken (what looks
    /// untaken may have been completed), and the device may still be reading.
    fn await_sent(&mut self, cache: &mut PoolCache, all: impl Fn(&XskQueue) -> bool) {
        let end = Instant::now() + DRAIN_TIMEOUT;
        loop {
            let _next_time = self.transmitter.flush(&self.socket, self.zero_copy);
            self.transmitter.reap(self.socket.tx_rings(), cache);
            if self.socket.tx_rings().out() == 0 || all(self) || Instant::now() > end {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for XskQueue {
    /// Sends what is still to be sent. Blocks for some milliseconds, and up to a tenth of a second
    /// if the device sends nothing. Other sockets on the device queue go on; the last one takes the
    /// frames home that all of them have lent.
    fn drop(&mut self) {
        let quiet = self.steering.undirect(self.index).is_ok() && grace_period().is_ok();
        let mut cache = self.pool.cache();
        self.await_sent(&mut cache, |queue| queue.socket.tx.free() == queue.socket.tx.capacity());
        self.receiver.retire(&self.socket, &mut cache);
        let rings = Arc::clone(&self.socket.frames);
        if !rings.leave() {
            return;
        }
        self.await_sent(&mut cache, |queue| queue.socket.tx_rings().out() == 0);
        // In copy mode only a packet's arrival makes the kernel take frames from the fill ring,
        // which ended with the grace period, and by then it has said how many it took. A device in
        // zero-copy mode may have them in its own rings.
        if quiet && !self.zero_copy {
            let (lent, frames) = (unconsumed(&rings.fill_parts), Frames::of(&self.pool));
            self.frame_return.indices = lent.into_iter().map(|at| frames.index(at)).collect();
        }
    }
}
