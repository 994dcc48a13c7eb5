#![doc = include_str!("README.md")]

use weever_block::{
    Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, READS, StateKind, bits, number_of,
};
use weever_graph::Effects;

/// The block type.
pub static COUNTER: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["packets", "bytes"],
    ..BlockType::new(
        "Counter",
        "Counts packets and bytes and passes them on.",
        &[PortDoc { name: "out", doc: "every packet" }],
        |_| Ok(Box::new(Counter)),
    )
};

struct Counter;

impl Block for Counter {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let length = |task| burst.get(task).map_or(0, |packet| packet.len() as u64);
        cx.count(0, number_of(input).into());
        cx.count(1, bits(input).map(length).sum());
        ports.enable(0, input);
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::Bench;

    #[test]
    fn counts_what_it_passes_on() {
        let mut bench = Bench::new();
        let frames = bench.burst(&[b"one", b"three", b""]);
        let ran = bench.run(&super::COUNTER, frames, 0b101);
        assert_eq!(ran.ports, [0b101]);
        assert_eq!(ran.requests.counts, [(0, 2), (1, 3)]);
    }
}
