//! Any frames, in any order, with time passing between them, through the whole graph of a host: every
//! packet has exactly one fate, no two nodes want the same one, and every buffer comes home.
//!
//! The input is a sequence of steps. A step is a byte of flags, a length in two bytes and that many
//! bytes of a frame; a step without a frame lets time pass.
//!
//! Making a host takes a hundred times as long as running an input, so a host sees many inputs. One
//! that fails only after others is found again by running the corpus: `cargo fuzz run frame_graph
//! fuzz/corpus/frame_graph -- -runs=0`.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::HostBox;
use weever_models::{HostConfig, Service, host};
use weever_packet::Flags;

mod shaped;

/// It comes from a link on which checksums may be partial.
const MAY_BE_PARTIAL: u8 = 2;

const TICK: u64 = 50_000_000;
const MAX_STEPS: usize = 64;

/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 500;

thread_local! {
    static HOST: RefCell<Option<(HostBox, u32)>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    HOST.with_borrow_mut(|slot| {
        let (mut graph, age) = slot.take().unwrap_or_else(|| (serving(), 0));
        steps(&mut graph, data);
        graph.check_fates();
        if age == LIFETIME {
            graph.finish();
        } else {
            *slot = Some((graph, age + 1));
        }
    });
});

fn serving() -> HostBox {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    HostBox::new(host(&config).expect("the graph that ships"))
}

fn steps(graph: &mut HostBox, mut rest: &[u8]) {
    for _ in 0..MAX_STEPS {
        let Some((flags, frame)) = shaped::next(&mut rest) else { break };
        step(graph, flags, frame);
        check_sent(graph);
    }
}

fn step(graph: &mut HostBox, flags: u8, frame: &[u8]) {
    if frame.is_empty() {
        graph.advance(u64::from(flags) * TICK);
        return;
    }
    let frame = shaped::shaped(flags, frame);
    let partial = flags & MAY_BE_PARTIAL != 0;
    graph.set_flags(if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE });
    graph.receive(&[frame]);
}

fn check_sent(graph: &mut HostBox) {
    graph.sent().iter().for_each(|frame| shaped::check_sent(frame));
}
