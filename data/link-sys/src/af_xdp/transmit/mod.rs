//! Sending, and getting back the frames of what was sent.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use libc::xdp_desc;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use weever_link::{QueueStats, fits};
use weever_packet::{BURST, Buffer, PoolCache};

use super::frames::{Frames, request_checksum};
use super::rings::TxRings;
use super::socket::Socket;

const NOTHING: xdp_desc = xdp_desc { addr: 0, len: 0, options: 0 };

pub(super) struct Transmitter {
    frames: Frames,
    mtu: u16,
    /// How many packets may be out: no more than the completion ring takes, or the kernel stops
    /// sending until some are taken from it. Sockets that share it may go beyond by a burst each.
    most_out: u32,
    /// Bytes in front of each packet that its metadata takes, 0 without any.
    room: u16,
    /// Whether the kernel may have left packets in the transmit ring.
    unsent: bool,
    scratch: Box<[xdp_desc; BURST]>,
}

impl Transmitter {
    pub(super) fn new(frames: Frames, mtu: u16, most_out: u32, room: u16) -> Transmitter {
        let scratch = Box::new([NOTHING; BURST]);
        Transmitter { frames, mtu, most_out, room, unsent: false, scratch }
    }

    pub(super) fn unsent(&self) -> bool {
        self.unsent
    }

    /// Puts packets into the transmit ring as far as there is room. `pool` is a cache of the
    /// socket's pool.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        rings: TxRings<'_>,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
        stats: &mut QueueStats,
    ) -> usize {
        let before = packets.len();
        if rings.out() as usize + before > self.most_out as usize {
            self.reap(rings, pool);
        }
        while !packets.is_empty() {
            // The kernel may complete packets long before it says that it has taken them from the
            // ring, so that what has come back is no measure of the ring's room.
            let room =
                self.most_out.saturating_sub(rings.out()).min(rings.tx.free()).min(BURST as u32);
            let n = self.gather(pool, packets, room as usize, stats);
            if n == 0 {
                break;
            }
            rings.out.fetch_add(n as u32, Ordering::Relaxed);
            if !rings.tx.push_all(&self.scratch[..n]) {
                rings.out.fetch_sub(n as u32, Ordering::Relaxed);
                self.take_back(pool, packets, n);
                break;
            }
            self.unsent = true;
            stats.tx_packets += n as u64;
            stats.tx_bytes += self.scratch[..n].iter().map(|d| u64::from(d.len)).sum::<u64>();
        }
        before - packets.len()
    }

    /// Makes packets again of what was gathered last.
    #[cold]
    fn take_back(&self, pool: &PoolCache, packets: &mut VecDeque<Buffer>, n: usize) {
        for descriptor in self.scratch[..n].iter().rev() {
            // SAFETY: given up in `gather` just before, and not handed to the kernel.
            let packet = unsafe { pool.adopt(self.frames.index(descriptor.addr)) };
            packets.push_front(packet);
        }
    }

    /// Makes descriptors of packets from the front, passing over and freeing those that cannot be
    /// sent, until `room` were found.
    #[inline]
    fn gather(
        &mut self,
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
            let mut packet = match at_home(packet, pool, self.room) {
                Ok(packet) => packet,
                Err(stranger) => {
                    packets.push_front(stranger);
                    break;
                }
            };
            let options = if self.room == 0 { 0 } else { request_checksum(&mut packet) };
            let (head, len) = (packet.head(), packet.len() as u32);
            let addr = self.frames.address(packet.into_raw(), head);
            self.scratch[n] = xdp_desc { addr, len, options };
            n += 1;
        }
        n
    }

    /// Has the kernel send what lies in the ring.
    #[inline]
    pub(super) fn flush(&mut self, socket: &Socket, zero_copy: bool) -> Result<(), Errno> {
        if !self.unsent {
            return Ok(());
        }
        let sent = if zero_copy && !socket.tx.needs_wakeup() { Ok(()) } else { kick(socket) };
        self.unsent = socket.tx.free() < socket.tx.capacity();
        sent
    }

    /// Takes back the frames of what has been sent.
    #[inline]
    pub(super) fn reap(&mut self, rings: TxRings<'_>, pool: &mut PoolCache) {
        let out = rings.out();
        if out == 0 {
            return;
        }
        let mut addresses = [0; BURST];
        let mut left = out as usize;
        while left > 0 {
            // Copied out first: freeing may have to wait for another thread at the pool's depot, and a
            // claim that is held keeps the kernel and the other sockets of the device queue waiting.
            let n = rings.completion.pop(&mut addresses[..left.min(BURST)]);
            if n == 0 {
                return;
            }
            rings.out.fetch_sub(n as u32, Ordering::Relaxed);
            for address in &addresses[..n] {
                // SAFETY: this frame, of this pool, was given up in `gather`, by us or by another queue
                // on these rings; the kernel hands it back once, when it has done with it.
                unsafe { pool.free_raw(self.frames.index(*address)) };
            }
            left -= n;
        }
    }
}

/// The packet in a frame of the pool with so much room in front: itself, or a copy of one from
/// elsewhere. Without a frame to copy it to, it is given back.
#[inline]
fn at_home(packet: Buffer, pool: &mut PoolCache, room: u16) -> Result<Buffer, Buffer> {
    let stays = packet.head() >= room && pool.owns(&packet);
    if stays { Ok(packet) } else { copied(packet, pool) }
}

#[cold]
fn copied(stranger: Buffer, pool: &mut PoolCache) -> Result<Buffer, Buffer> {
    let Some(mut copy) = pool.alloc() else { return Err(stranger) };
    let fitted = copy.append(stranger.data());
    debug_assert!(fitted, "what the MTU allows fits a frame, which `open` checks");
    copy.meta_mut().flags = stranger.meta().flags;
    Ok(copy)
}

/// Calls the kernel until the ring is empty or it makes no progress: older kernels send 32 packets
/// a call and then say EAGAIN. They do not say by the ring how far they came, but what they have
/// sent is completed.
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
