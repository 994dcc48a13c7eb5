//! Where timers lie: an arena with a free list, whose keys die with the timer, and
//! first-in-first-out lists through it.

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// Names a pending timer. A key outlives its timer harmlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// A timer and its neighbours in the list it is part of.
#[derive(Debug)]
pub(crate) struct Timer<T> {
    value: Option<T>,
    generation: u32,
    pub(crate) when: u64,
    pub(crate) list: u16,
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    timers: Vec<Timer<T>>,
    free: u32,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Slab<T> {
        Slab { timers: Vec::with_capacity(capacity), free: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.timers.capacity()
    }

    pub(crate) fn insert(&mut self, value: T, when: u64) -> Key {
        self.len += 1;
        let index = self.free;
        if index == NONE {
            return self.grow(value, when);
        }
        let timer = &mut self.timers[index as usize];
        self.free = timer.next;
        timer.value = Some(value);
        timer.when = when;
        Key { index, generation: timer.generation }
    }

    fn grow(&mut self, value: T, when: u64) -> Key {
        let index = u32::try_from(self.timers.len()).unwrap_or(NONE);
        assert!(index != NONE, "a wheel holds fewer than 2^32 - 1 timers");
        let value = Some(value);
        self.timers.push(Timer { value, generation: 0, when, list: 0, prev: NONE, next: NONE });
        Key { index, generation: 0 }
    }

    /// The index of a timer that is still pending.
    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        let timer = self.timers.get(key.index as usize)?;
        (timer.generation == key.generation && timer.value.is_some()).then_some(key.index)
    }

    /// Frees a timer that is in no list any more.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let timer = self.at(index);
        let value = timer.value.take();
        timer.generation = timer.generation.wrapping_add(1);
        timer.next = free;
        self.free = index;
        self.len -= 1;
        value
    }

    /// How many places there are, whether a timer lies there or not.
    pub(crate) fn slots(&self) -> u32 {
        self.timers.len() as u32
    }

    /// The value of the timer at a place, if there is one.
    pub(crate) fn value_mut(&mut self, index: u32) -> Option<&mut T> {
        self.timers[index as usize].value.as_mut()
    }

    pub(crate) fn at(&mut self, index: u32) -> &mut Timer<T> {
        &mut self.timers[index as usize]
    }
}

impl Key {
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NONE, tail: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }

    pub(crate) fn push<T>(&mut self, slab: &mut Slab<T>, index: u32) {
        let tail = self.tail;
        let timer = slab.at(index);
        timer.prev = tail;
        timer.next = NONE;
        match tail {
            NONE => self.head = index,
            _ => slab.at(tail).next = index,
        }
        self.tail = index;
    }

    pub(crate) fn pop<T>(&mut self, slab: &mut Slab<T>) -> Option<u32> {
        let head = self.head;
        if head == NONE {
            return None;
        }
        self.unlink(slab, head);
        Some(head)
    }

    pub(crate) fn unlink<T>(&mut self, slab: &mut Slab<T>, index: u32) {
        let timer = slab.at(index);
        let (prev, next) = (timer.prev, timer.next);
        match prev {
            NONE => self.head = next,
            _ => slab.at(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => slab.at(next).prev = prev,
        }
    }
}
