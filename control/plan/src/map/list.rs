//! A list of numbers that allocates only from the second on.

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct List {
    first: u32,
    more: Vec<u32>,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, more: Vec::new() }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (self.first != NONE).then_some(self.first).into_iter().chain(self.more.iter().copied())
    }

    pub(crate) fn contains(&self, item: u32) -> bool {
        self.iter().any(|i| i == item)
    }

    pub(crate) fn push(&mut self, item: u32) {
        if self.first == NONE {
            self.first = item;
        } else {
            self.more.push(item);
        }
    }

    /// Removes `item` and returns whether it was there.
    pub(crate) fn remove(&mut self, item: u32) -> bool {
        if self.first == item && item != NONE {
            self.first = self.more.pop().unwrap_or(NONE);
            return true;
        }
        let at = self.more.iter().position(|i| *i == item);
        at.map(|at| self.more.swap_remove(at)).is_some()
    }
}
