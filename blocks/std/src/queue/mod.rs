#![doc = include_str!("README.md")]

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, READS,
    bits,
};
use weever_graph::Effects;
use weever_net::state::NetState;

use crate::host::{Network, StateReader};
use crate::kinds::interface;

/// Where packets enter.
pub static RX_QUEUE: BlockType = BlockType::new(
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
        default: "interface",
        doc: "`interface`: that of the packet's interface, or where it came from; else a number, as the worker counts links",
    }],
    ..BlockType::new("TxQueue", "Hands packets to their links.", &[], make_tx)
};

fn make_tx(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let link: String = build.param("link")?;
    if link == "interface" {
        let state = build.env.get::<Network>().map(|host| host.reader());
        return Ok(Box::new(ByInterface { state }));
    }
    let link =
        link.parse().map_err(|_| build.bad_param("link", &link, "use `interface` or a number"))?;
    Ok(Box::new(TxQueue { link }))
}

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

/// Each packet by the link of its interface.
struct ByInterface {
    state: Option<StateReader>,
}

impl Block for ByInterface {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        let state = self.state.as_mut().map(|state| state.load().as_ref());
        let link_of = |task| burst.get(task).map_or(0, |packet| link(state, packet));
        // Packets for one link, nearly always all of them, are claimed together.
        let mut rest = input;
        while rest != 0 {
            let link = link_of(rest.trailing_zeros() as usize);
            let (first, others) = (rest & rest.wrapping_neg(), rest & (rest - 1));
            let same = bits(others).filter(|task| link_of(*task) == link);
            let same = same.fold(first, |all, task| all | 1 << task);
            cx.transmit(link, same);
            rest &= !same;
        }
    }
}

/// The link that a packet goes to, once it has been routed; else the one that it came from.
#[inline]
pub(crate) fn link(state: Option<&NetState>, packet: &Buffer) -> u16 {
    let iface = state.and_then(|state| interface(state, packet));
    iface.map_or(packet.meta().link, |iface| iface.link)
}

#[cfg(test)]
mod tests {
    use weever_block::Claim;

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
