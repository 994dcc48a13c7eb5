//! A frame and the packet in it.

use std::ptr::NonNull;

use crate::Meta;
use crate::frames::{LINE, Shared, Slot, prefetch};

/// A packet: the unique owner of a frame and its metadata.
///
/// The packet is `len` bytes from `head` on; in front of it lies headroom. Offsets in [`Meta`]
/// count from the frame's start.
pub struct Buffer(NonNull<Slot>);

// SAFETY: a buffer is the only way to its slot and frame; moving it moves that exclusive access.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference one can only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Safety
    /// `slot` is a slot of a live pool, and no other buffer refers to it.
    pub(crate) unsafe fn from_slot(slot: *mut Slot) -> Buffer {
        // SAFETY: pointers from `UnsafeCell::get` are not null.
        Buffer(unsafe { NonNull::new_unchecked(slot) })
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the slot outlives its buffers (see `Owner`), and we are its only owner.
        unsafe { self.0.as_ref() }
    }

    /// Where the packet starts, its length and its metadata: all but the constants and the loan,
    /// which other threads look at.
    #[inline]
    fn parts_mut(&mut self) -> (&mut u16, &mut u16, &mut Meta) {
        let slot = self.0.as_ptr();
        // SAFETY: as in `slot`, with exclusive access through `&mut self`; the fields are distinct.
        unsafe { (&mut (*slot).head, &mut (*slot).len, &mut (*slot).meta) }
    }

    #[inline]
    fn shared(&self) -> &Shared {
        // SAFETY: `Shared` outlives its buffers.
        unsafe { self.slot().home.as_ref() }
    }

    #[inline]
    pub(crate) fn home(&self) -> NonNull<Shared> {
        self.slot().home
    }

    /// Bytes of its frame.
    #[inline]
    pub fn frame_size(&self) -> usize {
        self.shared().frame_size as usize
    }

    /// Gives up the frame and says which it was; the caller has to bring it home.
    #[inline]
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index();
        std::mem::forget(self);
        index
    }

    /// The frame's index in its pool.
    #[inline]
    pub fn index(&self) -> u32 {
        self.shared().index_of(self.0)
    }

    /// Empties the packet, restores the headroom and forgets the metadata.
    pub fn clear(&mut self) {
        let headroom = self.shared().headroom;
        self.received(headroom, 0);
    }

    /// Says where a device has put a packet: `len` bytes at `head`, cut to the frame's end. The
    /// metadata starts afresh.
    #[inline]
    pub fn received(&mut self, head: u16, len: u16) {
        let size = self.frame_size();
        let (own_head, own_len, meta) = self.parts_mut();
        *own_head = head.min(size as u16);
        *own_len = len.min(size as u16 - *own_head);
        meta.reset();
    }

    /// Where the packet starts in its frame.
    #[inline]
    pub fn head(&self) -> u16 {
        self.slot().head
    }

    /// The packet's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.slot().len as usize
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.slot().len == 0
    }

    /// Bytes that can still be appended.
    pub fn tailroom(&self) -> usize {
        self.frame_size() - self.slot().head as usize - self.len()
    }

    /// The metadata.
    #[inline]
    pub fn meta(&self) -> &Meta {
        &self.slot().meta
    }

    /// The metadata, to change.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.parts_mut().2
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: head + len never exceeds the frame, which this buffer owns.
        unsafe {
            std::slice::from_raw_parts(
                slot.start.as_ptr().add(slot.head as usize),
                slot.len as usize,
            )
        }
    }

    /// The packet's bytes, to change.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let slot = self.slot();
        // SAFETY: as in `data`, with exclusive access through `&mut self`.
        unsafe {
            std::slice::from_raw_parts_mut(
                slot.start.as_ptr().add(slot.head as usize),
                slot.len as usize,
            )
        }
    }

    /// The bytes from frame offset `from` (as [`Meta`] records it) to the packet's end. They may
    /// start before the packet, in headers that were stripped. Empty when there are none.
    #[inline]
    pub fn at(&self, from: u16) -> &[u8] {
        let (start, len) = self.span_from(from);
        // SAFETY: `span_from` stays within the frame.
        unsafe { std::slice::from_raw_parts(self.slot().start.as_ptr().add(start), len) }
    }

    /// [`at`](Self::at), to change.
    #[inline]
    pub fn at_mut(&mut self, from: u16) -> &mut [u8] {
        let (start, len) = self.span_from(from);
        // SAFETY: `span_from` stays within the frame; exclusive access through `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.slot().start.as_ptr().add(start), len) }
    }

    /// The `N` bytes from frame offset `from` on, if the packet reaches that far: the same as
    /// [`at`](Self::at), in half the instructions, for a header of fixed size.
    #[inline(always)]
    pub fn array_at<const N: usize>(&self, from: u16) -> Option<&[u8; N]> {
        let slot = self.slot();
        if from as usize + N > slot.head as usize + slot.len as usize {
            return None;
        }
        // SAFETY: head + len never exceeds the frame, which this buffer owns, so the bytes are in
        // it; an array of bytes needs no alignment.
        Some(unsafe { &*slot.start.as_ptr().add(from as usize).cast::<[u8; N]>() })
    }

    #[inline]
    fn span_from(&self, from: u16) -> (usize, usize) {
        let end = self.slot().head as usize + self.slot().len as usize;
        let start = (from as usize).min(end);
        (start, end - start)
    }

    /// Grows the packet by `n` bytes at the front and returns them, or `None` without headroom.
    #[inline]
    pub fn prepend(&mut self, n: u16) -> Option<&mut [u8]> {
        let (head, len, _) = self.parts_mut();
        *head = head.checked_sub(n)?;
        *len += n;
        Some(&mut self.data_mut()[..n as usize])
    }

    /// Takes `n` bytes off the front; false, and nothing changed, when there are fewer.
    #[inline]
    pub fn strip(&mut self, n: u16) -> bool {
        let (head, len, _) = self.parts_mut();
        if *len < n {
            return false;
        }
        *head += n;
        *len -= n;
        true
    }

    /// Shortens the packet to `len` bytes; longer lengths change nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        let own = self.parts_mut().1;
        *own = (*own).min(u16::try_from(len).unwrap_or(u16::MAX));
    }

    /// Makes the packet the frame's bytes `start..end`; false, and nothing changed, when that is
    /// no range within the frame.
    #[inline]
    pub fn set_bounds(&mut self, start: u16, end: u16) -> bool {
        if start > end || end as usize > self.frame_size() {
            return false;
        }
        let (head, len, _) = self.parts_mut();
        (*head, *len) = (start, end - start);
        true
    }

    /// Appends bytes; false, and nothing changed, when they do not fit.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.tailroom() {
            return false;
        }
        let old = self.len();
        *self.parts_mut().1 += bytes.len() as u16;
        self.data_mut()[old..].copy_from_slice(bytes);
        true
    }

    /// Makes `copy` the same packet: bytes, those in front that were stripped, and metadata, whose
    /// offsets stay true. False, and nothing changed, when its frame ends before the packet does.
    pub fn copy_to(&self, copy: &mut Buffer) -> bool {
        let (start, end) = (self.head(), usize::from(self.head()) + self.len());
        if end > copy.frame_size() || !copy.set_bounds(0, end as u16) {
            return false;
        }
        copy.data_mut().copy_from_slice(self.at(0));
        let placed = copy.set_bounds(start, end as u16);
        debug_assert!(placed, "a range within the one just set");
        *copy.meta_mut() = *self.meta();
        true
    }

    /// Hints that the packet's first bytes will be read soon. Reads the metadata's cache line.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.data().as_ptr());
    }

    /// Hints that all bytes behind the first ones will be read soon.
    #[inline]
    pub fn prefetch_rest(&self) {
        let (start, len) = (self.data().as_ptr(), self.len());
        let mut at = LINE;
        while at < len {
            prefetch(start.wrapping_add(at));
            at += LINE;
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Nothing of the pool may be touched after this: it may go with its last frame.
        self.shared().depot.give_one(self.index());
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({}, {}+{})", self.index(), self.head(), self.len())
    }
}
