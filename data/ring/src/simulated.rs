//! A ring in ordinary memory whose other side is played by a single thread of ours: the kernel's
//! part in tests, models and memory links.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::MultiConsumer;
use crate::parts::{AtomicU32, Ordering, Slot};
use crate::parts::{RingError, RingParts};

/// Memory laid out as a ring, and the kernel's two moves on it. It must outlive the
/// [`MultiProducer`](crate::MultiProducer) or [`MultiConsumer`] made of its
/// [`parts`](Self::parts); keep it in an `Arc` beside them.
pub struct SimulatedKernel<T> {
    // `Arc` and not `Box`: moving a box claims that no pointer into it is in use.
    producer: Arc<AtomicU32>,
    consumer: Arc<AtomicU32>,
    flags: Arc<AtomicU32>,
    slots: Arc<[Slot<T>]>,
}

// SAFETY: the indices are atomics, and the slots are used by the ring's protocol: by the kernel's
// side in `take` and `give`, whose contract is one thread at a time, and else by the ring.
unsafe impl<T: Send> Sync for SimulatedKernel<T> {}
// SAFETY: as above; nothing in it belongs to the thread that made it.
unsafe impl<T: Send> Send for SimulatedKernel<T> {}

impl<T: Copy + Send> SimulatedKernel<T> {
    /// A ring of `len` slots, all `blank`, with both indices at `start`.
    ///
    /// # Errors
    /// [`RingError::Length`] if `len` is not a power of two of at most 2³⁰.
    pub fn new(len: u32, start: u32, blank: T) -> Result<Self, RingError> {
        let ring = SimulatedKernel {
            producer: Arc::new(AtomicU32::new(start)),
            consumer: Arc::new(AtomicU32::new(start)),
            flags: Arc::new(AtomicU32::new(0)),
            slots: (0..len).map(|_| Slot::new(blank)).collect(),
        };
        ring.parts().check()?;
        Ok(ring)
    }

    /// The addresses of the ring's parts.
    pub fn parts(&self) -> RingParts<T> {
        RingParts {
            producer: NonNull::from(&*self.producer),
            consumer: NonNull::from(&*self.consumer),
            flags: NonNull::from(&*self.flags),
            slots: NonNull::from(&*self.slots).cast(),
            len: self.slots.len() as u32,
        }
    }

    /// Sets or clears the ring's "needs wakeup" flag.
    pub fn set_needs_wakeup(&self, needed: bool) {
        self.flags.store(u32::from(needed), Ordering::Relaxed);
    }

    /// The producer and the consumer index, as the kernel sees them.
    pub fn indices(&self) -> (u32, u32) {
        (self.producer.load(Ordering::Acquire), self.consumer.load(Ordering::Acquire))
    }

    /// Consumes up to `max` produced descriptors, as the kernel does with fill and TX rings.
    ///
    /// # Safety
    /// Only one thread calls it at a time, and no [`MultiConsumer`] exists.
    pub unsafe fn take(&self, max: u32) -> Vec<T> {
        let (producer, consumer) = self.indices();
        let n = producer.wrapping_sub(consumer).min(max);
        // SAFETY: slots between the indices are written and not touched until we move ours.
        let read = |i| unsafe { self.slot(consumer.wrapping_add(i)).read() };
        let taken = (0..n).map(read).collect();
        self.consumer.store(consumer.wrapping_add(n), Ordering::Release);
        taken
    }

    /// Produces as many of `items` as fit and returns their number, as the kernel does with
    /// completion and RX rings.
    ///
    /// # Safety
    /// Only one thread calls it at a time, and no [`MultiProducer`](crate::MultiProducer) exists.
    pub unsafe fn give(&self, items: &[T]) -> usize {
        let (producer, consumer) = self.indices();
        let room = self.slots.len() - producer.wrapping_sub(consumer) as usize;
        let n = room.min(items.len());
        for (i, item) in items[..n].iter().enumerate() {
            // SAFETY: the slots from `producer` to `consumer + len` are free and ours.
            unsafe { self.slot(producer.wrapping_add(i as u32)).write(*item) };
        }
        self.producer.store(producer.wrapping_add(n as u32), Ordering::Release);
        n
    }

    fn slot(&self, index: u32) -> &Slot<T> {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

/// A ring that the kernel's side fills and any number of threads drain, all in this process: for benchmarks
/// and tests of receiving without a device.
pub struct SimulatedQueue<T> {
    // Before the memory that it lies in.
    ring: MultiConsumer<T>,
    kernel: SimulatedKernel<T>,
    giving: Mutex<()>,
}

impl<T: Copy + Send> SimulatedQueue<T> {
    /// An empty ring; as [`SimulatedKernel::new`].
    ///
    /// # Errors
    /// [`RingError::Length`] if `len` is not a power of two of at most 2³⁰.
    pub fn new(len: u32, start: u32, blank: T) -> Result<Self, RingError> {
        let kernel = SimulatedKernel::new(len, start, blank)?;
        // SAFETY: the kernel's side has its memory on the heap, and is dropped behind the ring; nobody else
        // consumes.
        let ring = unsafe { MultiConsumer::new(kernel.parts()) }?;
        Ok(SimulatedQueue { ring, kernel, giving: Mutex::new(()) })
    }

    /// Produces as many of `items` as fit and returns their number. Waits while another thread does.
    pub fn give(&self, items: &[T]) -> usize {
        let _alone = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: one thread at a time; the ring is a consumer's.
        unsafe { self.kernel.give(items) }
    }

    /// As [`MultiConsumer::pop`].
    #[inline]
    pub fn pop(&self, out: &mut [T]) -> usize {
        self.ring.pop(out)
    }

    /// As [`MultiConsumer::available`].
    #[inline]
    pub fn available(&self) -> u32 {
        self.ring.available()
    }
}
