//! Any frames, in any order, with time passing between them, through the whole graph of a host: every
//! packet has exactly one fate, no two nodes want the same one, and every buffer comes home.
//!
//! The input is a sequence of steps. A step is a byte of flags, a length in two bytes and that many
//! bytes of a frame; a step without a frame lets time pass.
//!
//! A host sees many inputs ([`on_host`]).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::HostBox;
use weever_fuzz::{Input, Slot, frames, on_host, serving};
use weever_packet::Flags;

/// It comes from a link on which checksums may be partial.
const MAY_BE_PARTIAL: u8 = 2;

const TICK: u64 = 50_000_000;
const MAX_STEPS: usize = 64;

/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 500;

thread_local! {
    static HOST: Slot<HostBox> = const { Slot::new(None) };
}

fuzz_target!(|data: &[u8]| {
    let run = |graph: &mut HostBox| {
        steps(graph, Input(data));
        graph.check_fates();
    };
    on_host(&HOST, LIFETIME, || HostBox::new(serving()), run, HostBox::finish);
});

fn steps(graph: &mut HostBox, mut input: Input<'_>) {
    for _ in 0..MAX_STEPS {
        let Some((flags, frame)) = frames::next(&mut input) else { break };
        step(graph, flags, frame);
        check_sent(graph);
    }
}

fn step(graph: &mut HostBox, flags: u8, frame: &[u8]) {
    if frame.is_empty() {
        graph.advance(u64::from(flags) * TICK);
        return;
    }
    let frame = frames::shaped(flags, frame);
    let partial = flags & MAY_BE_PARTIAL != 0;
    graph.set_flags(if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE });
    graph.receive(&[frame]);
}

fn check_sent(graph: &mut HostBox) {
    graph.sent().iter().for_each(|frame| frames::check_sent(frame));
}
