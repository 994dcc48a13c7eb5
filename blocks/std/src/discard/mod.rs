#![doc = include_str!("README.md")]

use weever_block::{Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, number_of};
use weever_graph::Effects;

/// The block type.
pub static DISCARD: BlockType = BlockType {
    effects: Effects::NONE,
    counters: &["packets"],
    ..BlockType::new(
        "Discard",
        "Ends a packet's journey on purpose: the discard service of RFC 863, or any sink.",
        &[PortDoc { name: "out", doc: "every packet; usually connected to nothing" }],
        |_| Ok(Box::new(Discard)),
    )
};

struct Discard;

impl Block for Discard {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        cx.count(0, number_of(input).into());
        ports.enable(0, input);
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::Bench;

    #[test]
    fn counts_even_tasks_without_a_packet() {
        let mut bench = Bench::new();
        let frames = bench.burst(&[b"x"]);
        let ran = bench.run(&super::DISCARD, frames, 0b11);
        assert_eq!((ran.ports, ran.requests.counts), (vec![0b11], vec![(0, 2)]));
    }
}
