//! Any frames, several at a time, over a memory link to a worker that runs the graph of a host, and
//! back, in a pool that they could empty: nothing panics or hangs, every frame that comes back is sound, and
//! every buffer comes home.
//!
//! The input is a sequence of steps. A step is a byte of flags, a length in two bytes and that many
//! bytes of a frame. Frames are gathered until a step says that they are sent; one without a frame
//! lets time pass as well.
//!
//! A host sees many inputs, as in `frame_graph`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::LinkBox;
use weever_fuzz::{Input, Slot, frames, on_host, serving};

/// What was gathered is sent, and the worker has one turn. Bits 1 and 4 are for [`frames`].
const TURN: u8 = 8;
/// The worker has turns until nothing happens, and the frames that came back are taken.
const SETTLE: u8 = 16;

const TICK: u64 = 20_000_000;
const MAX_STEPS: usize = 200;
/// Frames of the pool, and packets in a ring: few, so that both run out.
const FRAMES: u32 = 512;
const RING: usize = 48;
/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 200;

thread_local! {
    static HOST: Slot<LinkBox> = const { Slot::new(None) };
}

fuzz_target!(|data: &[u8]| {
    let run = |link: &mut LinkBox| {
        steps(link, Input(data));
        assert_eq!(link.counters().total("conflicts"), 0);
    };
    on_host(&HOST, LIFETIME, || LinkBox::new(serving(), FRAMES, RING), run, LinkBox::finish);
});

fn steps(link: &mut LinkBox, mut input: Input<'_>) {
    let mut gathered = Vec::new();
    for _ in 0..MAX_STEPS {
        let Some((flags, frame)) = frames::next(&mut input) else { break };
        if !frame.is_empty() {
            gathered.push(frames::shaped(flags, frame));
        }
        if flags & TURN != 0 || frame.is_empty() {
            link.send(&gathered);
            gathered.clear();
            link.turn(if frame.is_empty() { u64::from(flags) * TICK } else { 0 });
        }
        if flags & SETTLE != 0 {
            settle(link);
        }
    }
    link.send(&gathered);
    settle(link);
    assert!(link.send(&[[0; 60]]) > 0, "the host holds all frames of the pool");
    settle(link);
}

/// Turns and takes until nothing comes any more.
fn settle(link: &mut LinkBox) {
    loop {
        link.settle();
        let frames = link.received();
        frames.iter().for_each(|frame| frames::check_sent(frame));
        if frames.is_empty() {
            return;
        }
    }
}
