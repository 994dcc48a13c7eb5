//! AF_XDP with nothing around it, as in a program written for one purpose. Benchmarks measure links
//! against it, and it is not for anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::net::{SendFlags, send};
use weever_packet::{BURST, Pool, PoolError, Takers};
use weever_ring::RingParts;

use super::open::{Opening, check_mtu};
use super::queue::{DRAIN_TIMEOUT, FrameReturn, grace_period};
use super::rings::Frames;
use super::socket::{Origin, Socket};
use super::{AfXdpConfig, ChecksumOffload, OpenError, Queues, Steering};
use crate::netdev::Interface;

/// The first queue of a device, driven by hand: one producer, one consumer, plain stores, no
/// buffers. It uses up the pool that it is opened with.
pub struct Bare {
    socket: Socket,
    frame_return: FrameReturn,
    steering: Arc<Steering>,
    pool: Pool,
    /// The frames that go round.
    taken: Vec<u32>,
    /// Packets on their way out.
    out: u32,
}

impl Bare {
    /// Opens a device's first queue, as [`AfXdp::open`](super::AfXdp::open) does.
    ///
    /// # Errors
    /// As there.
    pub fn open(config: &AfXdpConfig) -> Result<Bare, OpenError> {
        let (queues, checksums) = (Queues::First(1), ChecksumOffload::None);
        let config = AfXdpConfig {
            queues,
            checksums,
            sockets_per_queue: 1,
            threads_per_queue: 1,
            classifies: false,
            ..config.clone()
        };
        config.rings.check()?;
        let device = Interface::find(&config.interface)?;
        check_mtu(&config, &device)?;
        let opening = Opening::new(&config, &device)?;
        let socket = opening.socket(Origin::Pool(&config.pool, checksums))?;
        let bare = Bare::new(socket, &config.pool, opening.steering.clone())
            .map_err(|error| OpenError::frames(&config.interface, error))?;
        opening.bind(bare.socket(), 0, None)?;
        opening.direct(0, bare.socket())?;
        opening.attach()?;
        Ok(bare)
    }

    fn new(socket: Socket, pool: &Pool, steering: Arc<Steering>) -> Result<Bare, PoolError> {
        let (frames, device) = (Frames::of(pool), pool.borrower("a bare queue", Takers::One)?);
        let frame_return = FrameReturn::new(pool.clone(), device.clone());
        let (pool, taken) = (pool.clone(), Vec::new());
        let mut bare = Bare { socket, frame_return, steering, pool, taken, out: 0 };
        let mut stock = bare.pool.stock();
        let fill = bare.socket.frames.fill_parts;
        for slot in 0..fill.len {
            let Some(index) = stock.lend(&device) else { break };
            // SAFETY: an empty ring, not bound yet, and a slot below its length.
            unsafe { put(&fill, slot, frames.address(index, 0)) };
            index_of(&fill).store(slot + 1, Ordering::Release);
            bare.taken.push(index);
        }
        Ok(bare)
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives up to 64 packets, looks at none, gives their frames back to the device, and
    /// returns how many they were.
    #[inline]
    pub fn receive_and_drop(&mut self) -> usize {
        let (rx, fill) = (self.socket.rx_parts, self.socket.frames.fill_parts);
        let (read, n) = readable(&rx);
        let write = index_of(&fill).load(Ordering::Relaxed);
        for i in 0..n {
            // SAFETY: `n` descriptors are readable, and their frames are not in the fill ring,
            // which therefore has room for them.
            unsafe { put(&fill, write.wrapping_add(i), get(&rx, read.wrapping_add(i)).addr) };
        }
        done(&rx, read.wrapping_add(n));
        index_of(&fill).store(write.wrapping_add(n), Ordering::Release);
        n as usize
    }

    /// Receives up to 64 packets, lets `turn` change each in place, sends them back, and returns
    /// how many they were. Waits in vain for room while the receiver at the other end is slow.
    #[inline]
    pub fn echo(&mut self, mut turn: impl FnMut(&mut [u8])) -> usize {
        self.recycle();
        let (rx, tx) = (self.socket.rx_parts, self.socket.tx_parts);
        let (read, n) = readable(&rx);
        let n = n.min(tx.len - self.out);
        let write = index_of(&tx).load(Ordering::Relaxed);
        for i in 0..n {
            // SAFETY: `n` descriptors are readable.
            let packet = unsafe { get(&rx, read.wrapping_add(i)) };
            let start = self.pool.region().start();
            // SAFETY: the kernel has handed over this part of a frame of the pool.
            turn(unsafe {
                let first = start.add(packet.addr as usize);
                std::slice::from_raw_parts_mut(first.as_ptr(), packet.len as usize)
            });
            // SAFETY: no more is out than the ring has slots.
            unsafe { put(&tx, write.wrapping_add(i), packet) };
        }
        done(&rx, read.wrapping_add(n));
        index_of(&tx).store(write.wrapping_add(n), Ordering::Release);
        self.out += n;
        if self.out > 0 {
            // Packets not sent now are sent with the next ones.
            let _busy = send(&self.socket, &[], SendFlags::DONTWAIT);
        }
        n as usize
    }

    /// Gives the frames of sent packets to the device.
    fn recycle(&mut self) {
        let rings = &self.socket.frames;
        let (completion, fill) = (rings.completion_parts, rings.fill_parts);
        let (read, n) = readable(&completion);
        let write = index_of(&fill).load(Ordering::Relaxed);
        for i in 0..n {
            // SAFETY: as in `receive_and_drop`.
            unsafe { put(&fill, write.wrapping_add(i), get(&completion, read.wrapping_add(i))) };
        }
        done(&completion, read.wrapping_add(n));
        index_of(&fill).store(write.wrapping_add(n), Ordering::Release);
        self.out -= n;
    }
}

impl Drop for Bare {
    /// As for other queues, except that every frame is in the rings, which are about to go.
    fn drop(&mut self) {
        let quiet = self.steering.undirect(0).is_ok() && grace_period().is_ok();
        let end = Instant::now() + DRAIN_TIMEOUT;
        while self.out > 0 && Instant::now() < end {
            let _busy = send(&self.socket, &[], SendFlags::DONTWAIT);
            self.recycle();
        }
        let copied = self.socket.is_zero_copy().is_ok_and(|zero_copy| !zero_copy);
        if quiet && copied && self.out == 0 {
            self.frame_return.indices = std::mem::take(&mut self.taken);
        }
    }
}

fn index_of<T>(ring: &RingParts<T>) -> &AtomicU32 {
    // SAFETY: the parts are those of the mapped rings of a live socket.
    unsafe { ring.producer.as_ref() }
}

/// Where to read, and how many descriptors there are, up to a burst.
#[inline]
fn readable<T>(ring: &RingParts<T>) -> (u32, u32) {
    // SAFETY: as in `index_of`.
    let read = unsafe { ring.consumer.as_ref() }.load(Ordering::Relaxed);
    let n = index_of(ring).load(Ordering::Acquire).wrapping_sub(read);
    (read, n.min(BURST as u32))
}

#[inline]
fn done<T>(ring: &RingParts<T>, read: u32) {
    // SAFETY: as in `index_of`.
    unsafe { ring.consumer.as_ref() }.store(read, Ordering::Release);
}

/// # Safety
/// The position is readable, or was written before.
#[inline]
unsafe fn get<T: Copy>(ring: &RingParts<T>, position: u32) -> T {
    // SAFETY: masked to the ring, whose slots are `T`s in memory.
    unsafe { ring.slots.cast::<T>().add((position & (ring.len - 1)) as usize).read() }
}

/// # Safety
/// The position is free.
#[inline]
unsafe fn put<T: Copy>(ring: &RingParts<T>, position: u32, value: T) {
    // SAFETY: masked to the ring, whose slots are `T`s in memory.
    unsafe { ring.slots.cast::<T>().add((position & (ring.len - 1)) as usize).write(value) };
}
