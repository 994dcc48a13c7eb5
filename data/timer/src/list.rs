//! First-in-first-out lists through the slab's timers.

use crate::slab::{NONE, Slab};

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
