//! A row of blocks, and the shortcut past them.

use weever_block::{Block, BlockType, Burst, Cx, Mask, Ports, Shortcut, ShortcutType, bits};
use weever_graph::Effects;
use weever_packet::Buffer;

use super::blocks::PLAIN;
use super::hash;

pub(super) static QUICK: BlockType =
    BlockType { name: "Quick", counters: &[], make: |_| Ok(Box::new(Decide(QUICK_SEED))), ..PLAIN };
pub(super) static SWIFT: BlockType = BlockType {
    name: "Swift",
    effects: Effects::NEEDS_BUFFER,
    make: |_| Ok(Box::new(Decide(SWIFT_SEED))),
    ..QUICK
};
const QUICK_SEED: u64 = 11;
const SWIFT_SEED: u64 = 12;

pub(super) static SHORTCUT: ShortcutType = ShortcutType {
    name: "QuickAndSwift",
    summary: "",
    ways: &[
        &[("Quick", "true"), ("Swift", "false")],
        &[("Quick", "false")],
        // Swift is an end of this one, where there is a Swift.
        &[("Quick", "true")],
    ],
    make: |_| Ok(Box::new(QuickAndSwift)),
};

/// A boolean of a packet's hash.
struct Decide(u64);

impl Block for Decide {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            ports.enable(usize::from(decide(self.0, burst, i)), 1 << i);
        }
    }
}

fn decide(seed: u64, burst: &Burst, task: usize) -> bool {
    hash(seed, burst.get(task).map_or(&[], Buffer::data)) & 1 == 1
}

/// Leaves one packet in eight to the blocks.
struct QuickAndSwift;

impl Shortcut for QuickAndSwift {
    fn run(&mut self, burst: &mut Burst, input: Mask, ways: &mut [Mask]) {
        for i in bits(input) {
            assert!(burst.get(i).is_some(), "a shortcut gets packets only");
            if hash(13, burst.get(i).map_or(&[], Buffer::data)) & 7 != 0 {
                let way = match (decide(QUICK_SEED, burst, i), decide(SWIFT_SEED, burst, i)) {
                    (true, false) => 0,
                    (false, _) => 1,
                    (true, true) => 2,
                };
                ways[way] |= 1 << i;
            }
        }
    }
}
