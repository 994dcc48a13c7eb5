//! The wheel.

use crate::Nanos;
use crate::slab::{Key, List, Slab};

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Eleven levels of six bits cover every tick that 64 bits can count: no deadline is too far.
const LEVELS: usize = 11;
/// The most timers that one poll brings closer: about ten microseconds of work. A slot may hold any
/// number of them.
const MAX_MOVED: usize = 1024;
/// The list of timers whose tick has come, behind those of the slots.
const DUE: usize = LEVELS * SLOTS;

/// Pending timers, each with a value that [`poll`](Wheel::poll) hands out when its time has come.
///
/// Time is cut into ticks. A timer never fires before its deadline, and at most one tick late.
/// Timers fire in the order of their ticks, those of one tick in the order of insertion.
#[derive(Debug)]
pub struct Wheel<T> {
    tick: Nanos,
    /// The last tick whose timers are all in the due list. Never goes back.
    elapsed: u64,
    slab: Slab<T>,
    lists: Box<[List]>,
    /// Per level, a bit for each slot that holds a timer.
    occupied: [u64; LEVELS],
    /// The list of a slot whose time has come, and whose timers move to the levels below.
    opened: Option<usize>,
}

impl<T> Wheel<T> {
    /// A wheel that starts at `now`, with ticks of `tick` nanoseconds (at least 1) and room for
    /// `capacity` timers before anything is allocated.
    pub fn new(tick: Nanos, capacity: usize, now: Nanos) -> Wheel<T> {
        let tick = tick.max(1);
        Wheel {
            tick,
            elapsed: now / tick,
            slab: Slab::with_capacity(capacity),
            lists: vec![List::EMPTY; DUE + 1].into_boxed_slice(),
            occupied: [0; LEVELS],
            opened: None,
        }
    }

    /// How many timers are pending.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many timers it holds before it allocates.
    pub fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// Adds a timer. One whose deadline has passed fires at the next poll.
    pub fn insert(&mut self, deadline: Nanos, value: T) -> Key {
        let when = deadline.div_ceil(self.tick);
        let key = self.slab.insert(value, when);
        self.place(key.index(), when);
        key
    }

    /// Takes a timer out before it fires. `None` when it has fired or was cancelled.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let index = self.slab.find(key)?;
        let list = self.slab.at(index).list as usize;
        self.lists[list].unlink(&mut self.slab, index);
        self.update_occupied(list);
        self.slab.remove(index)
    }

    /// Shows every pending timer's value to `keep`, in no particular order, and takes those out for
    /// which it says no. Takes time in the number of timers that were ever pending at once.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        for index in 0..self.slab.slots() {
            let Some(value) = self.slab.value_mut(index) else { continue };
            if !keep(value) {
                let list = self.slab.at(index).list as usize;
                self.lists[list].unlink(&mut self.slab, index);
                self.update_occupied(list);
                self.slab.remove(index);
            }
        }
    }

    /// The next timer that is due at `now`, if one is. Call it until it returns `None`.
    ///
    /// A call does a bounded amount of work. If very many timers are close to each other, it may
    /// return `None` before it has found a due one; [`next_deadline`](Self::next_deadline) then says
    /// that the next call is due at once.
    ///
    /// A `now` earlier than that of an earlier poll is harmless: time stands still until it is
    /// caught up with.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<T> {
        if self.is_empty() {
            self.elapsed = self.elapsed.max(now / self.tick);
            return None;
        }
        let tick = now / self.tick;
        // All slots in use lie ahead: within a tick there is nothing new.
        if tick <= self.elapsed && self.opened.is_none() && self.lists[DUE].is_empty() {
            return None;
        }
        self.advance(tick);
        if self.opened.is_some() {
            return None;
        }
        let index = self.lists[DUE].pop(&mut self.slab)?;
        self.slab.remove(index)
    }

    /// When to poll next: not later than the earliest timer's tick. It may be earlier; polling
    /// then fires nothing, and the next answer is closer.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if !self.lists[DUE].is_empty() || self.opened.is_some() {
            return Some(self.elapsed.saturating_mul(self.tick));
        }
        self.next_slot().map(|slot| slot.start.saturating_mul(self.tick))
    }

    /// Brings the wheel to tick `target`, or to the first tick before it that has timers.
    fn advance(&mut self, target: u64) {
        let mut budget = MAX_MOVED;
        loop {
            // Before anything fires: timers not sorted yet may be due earlier.
            if !self.sort(&mut budget) || !self.lists[DUE].is_empty() {
                return;
            }
            match self.next_slot().filter(|slot| slot.start <= target) {
                Some(slot) => self.open(slot),
                None => {
                    self.elapsed = self.elapsed.max(target);
                    return;
                }
            }
        }
    }

    /// Begins to spread a slot's timers over the levels below it. Nothing is added to its list until
    /// the wheel has gone on.
    fn open(&mut self, slot: Slot) {
        self.elapsed = slot.start;
        self.occupied[slot.list / SLOTS] &= !(1 << (slot.list % SLOTS));
        self.opened = Some(slot.list);
    }

    /// Spreads the timers of the opened slot; `false`: there are more than `budget` allows.
    fn sort(&mut self, budget: &mut usize) -> bool {
        let Some(list) = self.opened else { return true };
        while let Some(index) =
            (*budget > 0).then(|| self.lists[list].pop(&mut self.slab)).flatten()
        {
            *budget -= 1;
            let when = self.slab.at(index).when;
            self.place(index, when);
        }
        if self.lists[list].is_empty() {
            self.opened = None;
        }
        self.opened.is_none()
    }

    /// A timer lies at the level of the highest bit in which its tick differs from `elapsed`. So
    /// all slots in use are ahead of `elapsed`, and the lowest level's first one is the next.
    fn place(&mut self, index: u32, when: u64) {
        let list = if when <= self.elapsed {
            DUE
        } else {
            let level = (when ^ self.elapsed).ilog2() / SLOT_BITS;
            let slot = (when >> (level * SLOT_BITS)) as usize % SLOTS;
            self.occupied[level as usize] |= 1 << slot;
            level as usize * SLOTS + slot
        };
        self.slab.at(index).list = list as u16;
        self.lists[list].push(&mut self.slab, index);
    }

    fn update_occupied(&mut self, list: usize) {
        if list != DUE && self.lists[list].is_empty() {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn next_slot(&self) -> Option<Slot> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = level as u32 * SLOT_BITS;
        let above = self.elapsed.checked_shr(shift + SLOT_BITS).unwrap_or(0);
        let start = (above.checked_shl(shift + SLOT_BITS).unwrap_or(0)) | ((slot as u64) << shift);
        Some(Slot { list: level * SLOTS + slot, start })
    }
}

/// A slot and the first tick it stands for.
#[derive(Clone, Copy)]
struct Slot {
    list: usize,
    start: u64,
}
