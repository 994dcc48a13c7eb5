#![doc = include_str!("README.md")]

use weever_blocks_api::{Block, BlockType, Burst, Cx, Mask, ParamDoc, PortDoc, Ports};
use weever_graph::Effects;

use crate::check::{READS, reader};

/// Where packets enter.
pub static RX_QUEUE: BlockType = reader(
    "RxQueue",
    "Where received packets enter the graph.",
    &[PortDoc { name: "out", doc: "every packet" }],
    |_| Ok(Box::new(RxQueue)),
);

/// Where packets leave.
pub static TX_QUEUE: BlockType = BlockType {
    effects: READS.union(Effects::CONSUMES),
    params: &[ParamDoc {
        name: "link",
        default: "0",
        doc: "number of the link that sends, as the worker counts them",
    }],
    ..reader("TxQueue", "Hands packets to a link.", &[], |build| {
        Ok(Box::new(TxQueue { link: build.param("link")? }))
    })
};

struct RxQueue;

impl Block for RxQueue {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

struct TxQueue {
    link: u16,
}

impl Block for TxQueue {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(self.link, input);
    }
}

#[cfg(test)]
mod tests {
    use weever_blocks_api::Claim;

    use crate::bench::Bench;

    #[test]
    fn what_enters_goes_on() {
        let mut bench = Bench::new();
        let frames = bench.burst(&[b"a", b"b"]);
        assert_eq!(bench.run(&super::RX_QUEUE, frames, 0b11).ports, [0b11]);
    }

    #[test]
    fn what_leaves_is_claimed_by_the_link() {
        let mut bench = Bench::new().with_param("link", "3");
        let frames = bench.burst(&[b"a", b"b"]);
        let ran = bench.run(&super::TX_QUEUE, frames, 0b10);
        assert_eq!(ran.requests.claims, [(Claim::Transmit { link: 3 }, 0b10)]);
    }
}
