//! Deadlines of blocks: one for each, set and taken back at any time.

use std::collections::HashMap;

use weever_packet::Nanos;
use weever_timer::{Key, Wheel};

/// The deadlines of an engine's blocks, by node.
#[derive(Debug)]
pub(crate) struct Deadlines {
    wheel: Wheel<u32>,
    keys: HashMap<u32, Key>,
}

impl Deadlines {
    pub(crate) fn new(tick: Nanos) -> Deadlines {
        Deadlines { wheel: Wheel::new(tick, 0, 0), keys: HashMap::new() }
    }

    /// Replaces the deadline of a node's block.
    pub(crate) fn set(&mut self, node: u32, at: Option<Nanos>, now: Nanos) {
        if let Some(key) = self.keys.remove(&node) {
            self.wheel.cancel(key);
        }
        if let Some(at) = at {
            if self.wheel.is_empty() {
                // Advances an idle wheel first, so that the new timer is placed at a low level.
                self.wheel.poll(now);
            }
            self.keys.insert(node, self.wheel.insert(at, node));
        }
    }

    /// The next node whose deadline has come.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<u32> {
        let node = self.wheel.poll(now)?;
        self.keys.remove(&node);
        Some(node)
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Nodes have other numbers; those without one are gone, with their deadlines.
    pub(crate) fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.keys =
            self.keys.drain().filter_map(|(node, key)| Some((number(node)?, key))).collect();
        self.wheel.retain(|node| match number(*node) {
            Some(now) => {
                *node = now;
                true
            }
            None => false,
        });
    }
}
