#![doc = include_str!("README.md")]

use weever_block::{Block, BlockType, Burst, Cx, Mask, Ports, READS};
use weever_graph::Effects;

/// The block type.
pub static FOREIGN: BlockType = BlockType {
    spawns: &["whole"],
    effects: READS.union(Effects::CONSUMES),
    counters: &["packets"],
    ..BlockType::new(
        "Foreign",
        "Hands packets that a simplified graph was not made for over to the whole one.",
        &[],
        |_| Ok(Box::new(Foreign)),
    )
};

struct Foreign;

impl Block for Foreign {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.count(0, input.count_ones().into());
        cx.spawn(0, input);
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::Bench;

    #[test]
    fn hands_everything_over() {
        let mut bench = Bench::new();
        let frames = bench.burst(&[b"x", b"y"]);
        let ran = bench.run(&super::FOREIGN, frames, 0b11);
        assert_eq!((ran.requests.claims.len(), ran.requests.counts), (1, vec![(0, 2)]));
    }
}
