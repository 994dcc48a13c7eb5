//! One queue of a device: its socket, its receiver and its transmitter, and its end, at which no frame is lost
//! nor taken back while the kernel still uses it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::thread::{MembarrierCommand, membarrier};
use weever_link::{FrameNeed, Frames as FrameLimit, LinkError, LinkQueue, QueueStats};
use weever_packet::{Borrower, Buffer, Burst, Flags, Nanos, Pool, PoolCache, Stock};
use weever_ring::RingParts;

use super::Steering;
use super::receive::Receiver;
use super::rings::{Frames, METADATA};
use super::sharing::Member;
use super::socket::Socket;
use super::transmit::Transmitter;

/// How often a sleeping worker is woken to lend frames to a device that has none.
const RELEND_EVERY: Nanos = 1_000_000;
/// How often it is tried to send by a device that was down.
const RETRY_EVERY: Nanos = 500_000_000;
/// How many packets that a device refuses one call of `flush` throws away.
const MOST_REFUSED: usize = 64;
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
    /// The device queue, as the pool's frames know it.
    pub(super) device: Borrower,
    need: FrameNeed,
    /// Its place among those that receive from the device queue, if there may be several.
    member: Option<Member>,
    /// When it is tried again to send: the device is down. Packets to send are dropped meanwhile.
    down_until: Option<Nanos>,
    idle: u32,
    /// Whether a worker has slept on the descriptor since the clock was read.
    waited: Cell<bool>,
    checked: Instant,
    stats: QueueStats,
    /// The time of the worker's turn.
    now: Nanos,
}

/// A queue's properties, beside its socket.
pub(super) struct Facts<'a> {
    pub(super) link: &'a str,
    pub(super) index: u16,
    /// How many share its device queue.
    pub(super) sockets: u16,
    pub(super) mtu: u16,
    pub(super) flags: Flags,
    pub(super) pool: &'a Pool,
    pub(super) device: Borrower,
    /// How many frames the device may have to receive into.
    pub(super) lend: u32,
}

/// A queue that has fewer frames to receive into is not worth opening.
pub(super) const LEAST_LENT: u32 = 64;

impl XskQueue {
    pub(super) fn new(socket: Socket, facts: &Facts<'_>, steering: Arc<Steering>) -> XskQueue {
        let (frames, device) = (Frames::of(facts.pool), facts.device.clone());
        let most_out = socket.frames.completion.capacity() / u32::from(facts.sockets.max(1));
        let most_out = most_out.min(socket.tx.capacity());
        let need = FrameNeed {
            least: FrameLimit {
                receive: LEAST_LENT.min(facts.lend),
                send: LEAST_LENT.min(most_out),
            },
            most: FrameLimit { receive: facts.lend, send: most_out },
        };
        socket.frames.join();
        let room = if socket.metadata { METADATA } else { 0 };
        XskQueue {
            socket,
            frame_return: FrameReturn::new(facts.pool.clone(), device.clone()),
            receiver: Receiver::new(frames, device.clone(), facts.index, facts.flags, facts.lend),
            transmitter: Transmitter::new(frames, device.clone(), facts.mtu, most_out, room),
            steering,
            index: facts.index,
            zero_copy: false,
            sockets: facts.sockets,
            link: facts.link.to_owned(),
            pool: facts.pool.clone(),
            device,
            need,
            member: None,
            down_until: None,
            idle: 0,
            waited: Cell::new(false),
            checked: Instant::now(),
            stats: QueueStats::default(),
            now: 0,
        }
    }

    /// Lends the device frames before the socket is bound; it gets the rest when it is polled.
    pub(super) fn lend(&mut self, most: u32) {
        self.receiver.lend_first(&self.socket, &mut self.pool.stock(), most);
    }

    /// Has it receive with others.
    pub(super) fn join(&mut self, member: Member) {
        self.member = Some(member);
    }

    pub(super) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Has the kernel send the transmit ring's packets, and notices a device that is down.
    fn send(&mut self) -> Result<(), LinkError> {
        for _ in 0..MOST_REFUSED {
            let Err(errno) = self.transmitter.flush(&self.socket, self.zero_copy) else { break };
            if errno == Errno::NETDOWN {
                self.down_until = Some(self.now.saturating_add(RETRY_EVERY));
                return Ok(());
            }
            self.sort(errno, "sendto")?;
            if errno != Errno::BUSY || self.zero_copy {
                break;
            }
            // In copy mode: one packet's frame has come back, but the device refused the packet.
            self.stats.tx_dropped += 1;
        }
        self.down_until = None;
        Ok(())
    }

    /// Asks for the device when it is time. A zero-copy device that waits to be woken receives
    /// nothing either; the call wakes it.
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

    /// From the socket's own ring; or, if it is not that or that is empty, the part of the shared one.
    #[inline]
    fn receive(&mut self, stock: &mut Stock, burst: &mut Burst, max: usize) -> usize {
        let XskQueue { receiver, socket, stats, member, .. } = self;
        let Some(member) = member else {
            return receiver.receive(&socket.rx.ring, stock, burst, max, stats).0;
        };
        member.sent();
        if !member.leads() {
            let (n, _) = receiver.receive(&socket.rx.ring, stock, burst, max, stats);
            if n > 0 {
                return n;
            }
        }
        let Some((ring, max)) = member.part(max) else { return 0 };
        let (n, positions) = receiver.receive(ring, stock, burst, max, stats);
        member.received(positions, n);
        n
    }

    fn sort(&self, errno: Errno, what: &'static str) -> Result<(), LinkError> {
        verdict(&self.link, errno, what)
    }
}

/// The meaning of a failed kick. A device that is down may come up again, and packets that the
/// kernel has no room for now are tried again in the next turn.
fn verdict(link: &str, errno: Errno, what: &'static str) -> Result<(), LinkError> {
    let link = link.to_owned();
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

impl LinkQueue for XskQueue {
    #[inline]
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let n = self.receive(pool.stock_of(&self.pool), burst, max);
        let stock = pool.stock_of(&self.pool);
        self.receiver.refill(&self.socket, stock, n > 0);
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
        if self.down_until.is_some() {
            return Ok(Transmitter::discard(pool, packets, &mut self.stats));
        }
        let (rings, home) = (self.socket.tx_rings(), &self.pool);
        Ok(self.transmitter.transmit(rings, home, pool, packets, &mut self.stats))
    }

    #[inline]
    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        if self.down_until.is_none_or(|until| self.now >= until) {
            self.send()?;
        }
        self.transmitter.reap(self.socket.tx_rings(), pool.stock_of(&self.pool));
        Ok(())
    }

    /// There is no hurry for a device that is down.
    fn unsent(&self) -> bool {
        self.transmitter.unsent() && self.down_until.is_none()
    }

    fn pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }

    fn frame_need(&self) -> FrameNeed {
        self.need
    }

    fn limit_frames(&mut self, most: FrameLimit) {
        self.receiver.limit(most.receive.min(self.need.most.receive));
        self.transmitter.limit(most.send.min(self.need.most.send));
    }

    fn keeps_order(&self) -> bool {
        self.member.as_ref().is_some_and(Member::keeps_order)
    }

    fn has_turn(&self) -> bool {
        self.member.as_ref().is_some_and(Member::has_turn)
    }

    fn may_send(&mut self) -> bool {
        let now = self.now;
        self.member.as_mut().is_none_or(|member| member.may_send(now))
    }

    fn sent(&mut self) {
        self.member.iter_mut().for_each(Member::sent);
    }

    fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// A device without frames receives nothing that would wake its worker: it is lent frames as soon as
    /// the pool has some again.
    fn next_deadline(&self) -> Option<Nanos> {
        let relend = self.receiver.is_starved().then(|| self.now.saturating_add(RELEND_EVERY));
        let leaves_by = self.member.as_ref().and_then(Member::sends_by);
        [relend, self.down_until, leaves_by].into_iter().flatten().min()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.waited.set(true);
        let helper = self.member.as_ref().and_then(Member::fd);
        Some(helper.unwrap_or_else(|| self.socket.as_fd()))
    }

    fn is_quiet(&self) -> bool {
        self.member.is_none() && self.socket.rx.ring.available() == 0
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.member.as_ref().is_none_or(Member::prepare_to_sleep)
    }

    fn end_sleep(&mut self) {
        if let Some(member) = &self.member {
            member.end_sleep();
        }
    }

    /// Asks the kernel; a device that is gone leaves its counts at zero.
    fn stats(&self) -> QueueStats {
        // The device queue's, of which each of its sockets is told.
        let of_the_queue =
            |count: u64| if self.index.is_multiple_of(self.sockets) { count } else { 0 };
        let bad_returns = of_the_queue(self.device.rejected());
        let own = QueueStats { bad_returns, ..self.stats };
        let Ok(kernel) = self.socket.statistics() else { return own };
        QueueStats {
            rx_dropped: kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0),
            rx_invalid: kernel.rx_invalid_descs,
            tx_dropped: self.stats.tx_dropped + kernel.tx_invalid_descs,
            fill_empty: of_the_queue(kernel.rx_fill_ring_empty_descs.unwrap_or(0)),
            ..own
        }
    }
}

impl XskQueue {
    /// Sends and takes frames back until `all` is so. Those that do not come back are lost to the
    /// pool: the kernel does not say by the transmit ring which packets it has not taken (packets
    /// that look untaken may have been completed), and the device may still be reading.
    fn await_sent(&mut self, stock: &mut Stock, all: impl Fn(&XskQueue) -> bool) {
        let end = Instant::now() + DRAIN_TIMEOUT;
        loop {
            let _next_time = self.transmitter.flush(&self.socket, self.zero_copy);
            self.transmitter.reap(self.socket.tx_rings(), stock);
            if self.transmitter.out() == 0 || all(self) || Instant::now() > end {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for XskQueue {
    /// Sends the packets that are left. Blocks for some milliseconds, and up to a tenth of a second
    /// if the device sends nothing. Other sockets on the device queue go on; the last one takes the
    /// frames home that all of them have lent.
    fn drop(&mut self) {
        // Others need not wait meanwhile.
        self.member.iter_mut().for_each(Member::sent);
        let quiet = self.steering.undirect(self.index).is_ok() && grace_period().is_ok();
        let mut stock = self.pool.stock();
        self.await_sent(&mut stock, |queue| queue.socket.tx.free() == queue.socket.tx.capacity());
        self.receiver.retire(&self.socket, &mut stock);
        let rings = Arc::clone(&self.socket.frames);
        let Some(left) = rings.leave(self.transmitter.leave_out()) else { return };
        self.transmitter.take_over(left);
        self.await_sent(&mut stock, |_| false);
        // In copy mode only a packet's arrival makes the kernel take frames from the fill ring,
        // which ended with the grace period, and by then it has said how many it took. A device in
        // zero-copy mode may have them in its own rings.
        if quiet && !self.zero_copy {
            let (lent, frames) = (unconsumed(&rings.fill_parts), Frames::of(&self.pool));
            self.frame_return.indices = lent.into_iter().map(|at| frames.index(at)).collect();
        }
    }
}

/// How long packets on their way out are waited for: as long as a slow receiver may hold them.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Frames that go home when this is dropped, which has to be after the socket is closed.
pub(super) struct FrameReturn {
    pool: Pool,
    device: Borrower,
    pub(super) indices: Vec<u32>,
}

impl FrameReturn {
    pub(super) fn new(pool: Pool, device: Borrower) -> FrameReturn {
        FrameReturn { pool, device, indices: Vec::new() }
    }
}

impl Drop for FrameReturn {
    fn drop(&mut self) {
        let mut stock = self.pool.stock();
        for index in self.indices.drain(..) {
            // SAFETY: `Drop` of the queue proved that neither side uses these frames any more.
            unsafe { stock.free_back(index, &self.device) };
        }
    }
}

/// Waits until every core has left the receive path that it was in: this command is the kernel's
/// `synchronize_rcu`, and a redirect runs within one RCU read section from the look into the map
/// to the write into the socket's ring.
pub(super) fn grace_period() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

/// The addresses that we have produced and the kernel has not consumed. The ring is at rest.
pub(super) fn unconsumed(parts: &RingParts<u64>) -> Vec<u64> {
    // SAFETY: the parts are those of a mapped ring: the socket lives until its queue's fields are
    // dropped.
    let (producer, consumer) = unsafe { (parts.producer.as_ref(), parts.consumer.as_ref()) };
    let first = consumer.load(Ordering::Acquire);
    let n = producer.load(Ordering::Acquire).wrapping_sub(first).min(parts.len);
    let slots = parts.slots.cast::<u64>();
    let read = |i: u32| {
        let slot = first.wrapping_add(i) & (parts.len - 1);
        // SAFETY: masked to the ring; a slot is a `u64` in memory, written before `producer` passed
        // it, and neither side writes to a ring at rest.
        unsafe { slots.add(slot as usize).read() }
    };
    (0..n).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_short_of_memory_ends_no_queue_and_a_device_that_is_gone_does() {
        let passing =
            [Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::BUSY, Errno::NETDOWN, Errno::INTR];
        for errno in passing {
            assert!(verdict("eth7", errno, "sendto").is_ok(), "{errno}");
        }
        for errno in [Errno::NXIO, Errno::NODEV] {
            assert!(matches!(verdict("eth7", errno, "sendto"), Err(LinkError::Gone { .. })));
        }
        let text = verdict("eth7", Errno::INVAL, "sendto").unwrap_err().to_string();
        assert!(text.starts_with("link eth7: sendto: "), "{text}");
    }
}
