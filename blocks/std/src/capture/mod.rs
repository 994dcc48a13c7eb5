#![doc = include_str!("README.md")]
//!
//! To capture, make a [`Tap`], enter it in the [`Taps`] of the environment, and add blocks with its
//! number to the graph. Each block, on each worker, opens a ring of its own into the tap;
//! [`Tap::collect`] takes out their contents.

mod ring;
mod tap;

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Build, BuildError, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, READS,
    StateKind, bits,
};
use weever_graph::Effects;

use crate::host::{Network, StateReader};
use crate::kinds::whole;
use crate::queue::link;
use ring::Writer;

pub use tap::{Captured, Tap, TapConfig, Taps};

/// The block type.
pub static CAPTURE: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[
        ParamDoc { name: "tap", default: "", doc: "number of the tap in the environment's `Taps`" },
        ParamDoc {
            name: "place",
            default: "0",
            doc: "the mark of copies, to tell one block of a tap from another",
        },
    ],
    counters: &["captured", "missed"],
    ..BlockType::new(
        "Capture",
        "Passes packets on, and copies those that match a filter for a reader.",
        &[PortDoc { name: "out", doc: "every packet" }],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let taps = build.env::<Taps>("the list of captures (`Taps`)")?;
    let number: u32 = build.param("tap")?;
    let tap = taps.get(number).ok_or_else(|| {
        let value = number.to_string();
        build.bad_param("tap", &value, "there is no such tap; blocks of this type are for captures")
    })?;
    let writer = tap.open(build.param("place")?);
    let state = build.env.get::<Network>().map(|host| host.reader());
    Ok(Box::new(Capture { tap, writer, state }))
}

struct Capture {
    tap: Arc<Tap>,
    writer: Writer,
    /// Of a host: a packet that is forwarded leaves by another link than it came from.
    state: Option<StateReader>,
}

impl Block for Capture {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (mut captured, mut missed) = (0, 0);
        let time = self.tap.time(cx.now);
        let state = self.state.as_mut().map(|state| state.load().as_ref());
        let wanted = self.tap.wants(burst, input);
        for packet in bits(wanted).filter_map(|task| burst.get(task)) {
            let frame = whole(packet);
            let kept = self.writer.write(time, link(state, packet), frame, self.tap.snaplen());
            captured += u64::from(kept);
            missed += u64::from(!kept);
        }
        cx.count(0, captured);
        cx.count(1, missed);
        self.tap.missed(missed);
        ports.enable(0, input);
    }
}

#[cfg(test)]
mod tests;
