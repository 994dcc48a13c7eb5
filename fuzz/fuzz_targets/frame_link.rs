//! Any frames, several at a time, over a memory link to a worker that runs the graph of a host, and
//! back, in a pool that they could empty: nothing panics or hangs, what comes back is sound, and
//! every buffer comes home.
//!
//! The input is a sequence of steps. A step is a byte of flags, a length in two bytes and that many
//! bytes of a frame. Frames are gathered until a step says that they are sent; one without a frame
//! lets time pass as well.
//!
//! A host sees many inputs, as in `frame_graph`.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::LinkBox;
use weever_models::{HostConfig, Service, host};

mod shaped;

/// What was gathered is sent, and the worker has one turn. Bits 1 and 4 are for [`shaped`].
const TURN: u8 = 8;
/// The worker has turns until nothing happens, and what came back is taken.
const SETTLE: u8 = 16;

const TICK: u64 = 20_000_000;
const MAX_STEPS: usize = 200;
/// Frames of the pool, and packets in a ring: few, so that both run out.
const FRAMES: u32 = 512;
const RING: usize = 48;
/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 200;

thread_local! {
    static HOST: RefCell<Option<(LinkBox, u32)>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    HOST.with_borrow_mut(|slot| {
        let (mut link, age) = slot.take().unwrap_or_else(|| (serving(), 0));
        steps(&mut link, data);
        assert_eq!(link.counters().total("conflicts"), 0);
        if age == LIFETIME {
            link.finish();
        } else {
            *slot = Some((link, age + 1));
        }
    });
});

fn serving() -> LinkBox {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    LinkBox::new(host(&config).expect("the graph that ships"), FRAMES, RING)
}

fn steps(link: &mut LinkBox, mut rest: &[u8]) {
    let mut gathered = Vec::new();
    for _ in 0..MAX_STEPS {
        let Some((flags, frame)) = shaped::next(&mut rest) else { break };
        if !frame.is_empty() {
            gathered.push(shaped::shaped(flags, frame));
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
    assert!(link.send(&[[0; 60]]) > 0, "the pool is exhausted by what the host holds");
    settle(link);
}

/// Turns and takes until nothing comes any more.
fn settle(link: &mut LinkBox) {
    loop {
        link.settle();
        let frames = link.received();
        frames.iter().for_each(|frame| shaped::check_sent(frame));
        if frames.is_empty() {
            return;
        }
    }
}
