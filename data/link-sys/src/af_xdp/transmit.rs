//! Sending, and getting back the frames of what was sent.

use std::collections::VecDeque;

use libc::xdp_desc;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use weever_link::{QueueStats, fits};
use weever_packet::{BURST, Buffer, PoolCache};

use super::frames::Frames;
use super::socket::Socket;

const NOTHING: xdp_desc = xdp_desc { addr: 0, len: 0, options: 0 };

pub(super) struct Transmitter {
    frames: Frames,
    mtu: u16,
    /// Packets given to the kernel whose frames have not come back.
    pub(super) out: u32,
    /// How many that may be: no more than the completion ring takes, or the kernel stops sending,
    /// and no more than the transmit ring takes, so that it always has room for the difference.
    most_out: u32,
    /// Whether the kernel may have left packets in the transmit ring.
    unsent: bool,
    scratch: Box<[xdp_desc; BURST]>,
}

impl Transmitter {
    pub(super) fn new(frames: Frames, mtu: u16, most_out: u32) -> Transmitter {
        let scratch = Box::new([NOTHING; BURST]);
        Transmitter { frames, mtu, out: 0, most_out, unsent: false, scratch }
    }

    pub(super) fn unsent(&self) -> bool {
        self.unsent
    }

    /// Puts packets into the transmit ring as far as there is room. `pool` is a cache of the
    /// socket's pool.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        socket: &Socket,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
        stats: &mut QueueStats,
    ) -> usize {
        let before = packets.len();
        if self.out as usize + before > self.most_out as usize {
            self.reap(socket, pool);
        }
        loop {
            let room = (self.most_out - self.out).min(BURST as u32) as usize;
            let n = self.gather(pool, packets, room, stats);
            if n == 0 {
                return before - packets.len();
            }
            let taken = socket.tx.push_all(&self.scratch[..n]);
            debug_assert!(taken, "no more is out than the ring has slots");
            self.out += n as u32;
            self.unsent = true;
            stats.tx_packets += n as u64;
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
            let packet = match at_home(packet, pool) {
                Ok(packet) => packet,
                Err(stranger) => {
                    packets.push_front(stranger);
                    break;
                }
            };
            let (head, len) = (packet.head(), packet.len() as u32);
            stats.tx_bytes += u64::from(len);
            let addr = self.frames.address(packet.into_raw(), head);
            self.scratch[n] = xdp_desc { addr, len, options: 0 };
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
    pub(super) fn reap(&mut self, socket: &Socket, pool: &mut PoolCache) {
        if self.out == 0 {
            return;
        }
        let frames = self.frames;
        let done = socket.completion.drain(self.out, |address| {
            // SAFETY: we gave up this frame, of this pool, in `gather`; the kernel hands it back
            // once, when it has done with it.
            unsafe { pool.free_raw(frames.index(address)) };
        });
        self.out -= done as u32;
    }
}

/// The packet in a frame of the pool: itself, or a copy of one from elsewhere. Without a frame to
/// copy it to, it is given back.
#[inline]
fn at_home(packet: Buffer, pool: &mut PoolCache) -> Result<Buffer, Buffer> {
    if pool.owns(&packet) { Ok(packet) } else { copied(packet, pool) }
}

#[cold]
fn copied(stranger: Buffer, pool: &mut PoolCache) -> Result<Buffer, Buffer> {
    let Some(mut copy) = pool.alloc() else { return Err(stranger) };
    let fitted = copy.append(stranger.data());
    debug_assert!(fitted, "what the MTU allows fits a frame, which `open` checks");
    Ok(copy)
}

/// Calls the kernel until the ring is empty or it makes no progress: older kernels send 32 packets
/// a call and then say EAGAIN.
#[inline]
fn kick(socket: &Socket) -> Result<(), Errno> {
    let mut room = 0;
    loop {
        let sent = send(socket, &[], SendFlags::DONTWAIT).map(drop);
        let before = std::mem::replace(&mut room, socket.tx.free());
        let again = sent == Err(Errno::AGAIN) && room > before && room < socket.tx.capacity();
        if !again {
            return sent;
        }
    }
}
