//! Sending, and getting back the frames of sent packets.

use std::collections::VecDeque;

use libc::xdp_desc;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use weever_link::{QueueStats, fits};
use weever_packet::{BURST, Borrower, Buffer, Pool, PoolCache, Stock};

use super::rings::TxRings;
use super::rings::{Frames, request_checksum};
use super::socket::Socket;

const NOTHING: xdp_desc = xdp_desc { addr: 0, len: 0, options: 0 };

pub(super) struct Transmitter {
    frames: Frames,
    /// The device queue, which the frames of packets are lent to.
    device: Borrower,
    mtu: u16,
    /// How many packets may be out: no more than this socket's part of the completion ring, or the
    /// kernel stops sending until some are taken from it.
    most_out: u32,
    /// Packets given to the kernel for which no frame has come back. Of the frames of all sockets on
    /// the device queue each takes back as many as it has sent, whichever they are.
    out: u32,
    /// Bytes in front of each packet that its metadata takes, 0 without any.
    room: u16,
    /// Whether the kernel may have left packets in the transmit ring.
    unsent: bool,
    scratch: Box<[xdp_desc; BURST]>,
    /// Addresses that were copied out of the completion ring.
    returned: Box<[u64; BURST]>,
}

impl Transmitter {
    pub(super) fn new(
        frames: Frames,
        device: Borrower,
        mtu: u16,
        most_out: u32,
        room: u16,
    ) -> Transmitter {
        let (scratch, returned) = (Box::new([NOTHING; BURST]), Box::new([0; BURST]));
        Transmitter {
            frames,
            device,
            mtu,
            most_out,
            out: 0,
            room,
            unsent: false,
            scratch,
            returned,
        }
    }

    /// From now on no more packets may be out than that.
    pub(super) fn limit(&mut self, most_out: u32) {
        self.most_out = most_out;
    }

    pub(super) fn out(&self) -> u32 {
        self.out
    }

    /// Leaves the frames that have not come back to the socket that is the last on the device queue.
    pub(super) fn leave_out(&mut self) -> u32 {
        std::mem::take(&mut self.out)
    }

    /// Takes over the frames that others have left.
    pub(super) fn take_over(&mut self, out: u32) {
        self.out += out;
    }

    pub(super) fn unsent(&self) -> bool {
        self.unsent
    }

    /// Puts packets into the transmit ring as far as there is room; `home` is the socket's pool.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        rings: TxRings<'_>,
        home: &Pool,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
        stats: &mut QueueStats,
    ) -> usize {
        let before = packets.len();
        if self.out as usize + before > self.most_out as usize {
            self.reap(rings, pool.stock_of(home));
        }
        while !packets.is_empty() {
            // The kernel may complete packets long before it says that it has taken them from the
            // ring, so that the frames that came back are no measure of the ring's room.
            let room =
                self.most_out.saturating_sub(self.out).min(rings.tx.free()).min(BURST as u32);
            let n = self.gather(home, pool, packets, room as usize, stats);
            if n == 0 {
                break;
            }
            if !rings.tx.push_all(&self.scratch[..n]) {
                self.take_back(pool.stock_of(home), packets, n);
                break;
            }
            self.out += n as u32;
            self.unsent = true;
            stats.tx_packets += n as u64;
            stats.tx_bytes += self.scratch[..n].iter().map(|d| u64::from(d.len)).sum::<u64>();
        }
        before - packets.len()
    }

    /// Turns the frames gathered last into packets again.
    #[cold]
    fn take_back(&self, stock: &Stock, packets: &mut VecDeque<Buffer>, n: usize) {
        for descriptor in self.scratch[..n].iter().rev() {
            let index = self.frames.index(descriptor.addr);
            // SAFETY: given up in `gather` just before, and not handed to the kernel.
            let packet = unsafe { stock.take_back(index, None, &self.device) };
            packet.into_iter().for_each(|packet| packets.push_front(packet));
        }
    }

    /// Frees packets that will not be sent.
    pub(super) fn discard(
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
        stats: &mut QueueStats,
    ) -> usize {
        let n = packets.len();
        packets.drain(..).for_each(|packet| pool.free(packet));
        stats.tx_dropped += n as u64;
        n
    }

    /// Makes descriptors of packets from the front, passing over and freeing those that cannot be
    /// sent, until `room` were found.
    #[inline]
    fn gather(
        &mut self,
        home: &Pool,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
        room: usize,
        stats: &mut QueueStats,
    ) -> usize {
        let mut n = 0;
        while n < room
            && let Some(packet) = packets.pop_front()
        {
            if !fits(packet.data(), self.mtu) {
                stats.tx_dropped += 1;
                pool.free(packet);
                continue;
            }
            let stock = pool.stock_of(home);
            let mut packet = if packet.head() >= self.room && stock.owns(&packet) {
                packet
            } else {
                let Some(copy) = copied(&packet, stock) else {
                    packets.push_front(packet);
                    break;
                };
                stats.tx_copied += 1;
                pool.free(packet);
                copy
            };
            let options = if self.room == 0 { 0 } else { request_checksum(&mut packet) };
            let (head, len) = (packet.head(), packet.len() as u32);
            let loaned = pool.stock_of(home).lend_packet(packet, &self.device);
            let Ok(loaned) = loaned else { continue };
            let addr = self.frames.address(loaned.index, head);
            self.scratch[n] = xdp_desc { addr, len, options };
            n += 1;
        }
        n
    }

    /// Has the kernel send the ring's packets.
    #[inline]
    pub(super) fn flush(&mut self, socket: &Socket, zero_copy: bool) -> Result<(), Errno> {
        if !self.unsent {
            return Ok(());
        }
        let sent = if zero_copy && !socket.tx.needs_wakeup() { Ok(()) } else { kick(socket) };
        self.unsent = socket.tx.free() < socket.tx.capacity();
        sent
    }

    /// Takes back the frames of sent packets.
    #[inline]
    pub(super) fn reap(&mut self, rings: TxRings<'_>, stock: &mut Stock) {
        if self.out > 0 {
            self.reap_some(rings, stock);
        }
    }

    fn reap_some(&mut self, rings: TxRings<'_>, stock: &mut Stock) {
        while self.out > 0 {
            // Copied out first: a claim that is held keeps the kernel and the other sockets of the
            // device queue waiting.
            let most = (self.out as usize).min(BURST);
            let n = rings.completion.pop(&mut self.returned[..most]);
            if n == 0 {
                return;
            }
            self.out -= n as u32;
            let done = &self.returned[..n];
            done.iter().for_each(|address| stock.expect(self.frames.index(*address)));
            for address in done {
                // SAFETY: the kernel hands a frame back when it has done with it. Where several workers
                // take them back, the borrower says so.
                unsafe { stock.free_back(self.frames.index(*address), &self.device) };
            }
        }
    }
}

/// The same packet in a frame of the stock, with room for metadata in front; `None` without a free one.
#[cold]
fn copied(stranger: &Buffer, stock: &mut Stock) -> Option<Buffer> {
    let mut copy = stock.alloc()?;
    let fitted = copy.append(stranger.data());
    debug_assert!(fitted, "a packet within the MTU fits a frame, which `open` checks");
    copy.meta_mut().flags = stranger.meta().flags;
    Some(copy)
}

/// Calls the kernel until the ring is empty or it makes no progress: older kernels send 32 packets
/// a call and then say EAGAIN. They do not record in the ring how far they came, but sent packets
/// are completed.
#[inline]
fn kick(socket: &Socket) -> Result<(), Errno> {
    let mut before = None;
    loop {
        let sent = send(socket, &[], SendFlags::DONTWAIT).map(drop);
        if sent != Err(Errno::AGAIN) {
            return sent;
        }
        let now = progress(socket);
        if before == Some(now) || now.0 == socket.tx.capacity() {
            return sent;
        }
        before = Some(now);
    }
}

/// Two values of which at least one grows when the kernel sends; neither falls while no thread
/// transmits or reaps.
#[inline]
fn progress(socket: &Socket) -> (u32, u32) {
    (socket.tx.free(), socket.frames.completion.available())
}

#[cfg(test)]
mod tests;
