//! Frames that must not get through.

use std::time::{Duration, Instant};

use weever_service_api::{ClientError, Counters};

use super::PATIENCE;
use crate::error::DemoError;
use crate::frames;
use crate::layers::drops_at;
use crate::outcome::Outcome;
use crate::peer::{Over, Peer};

/// How many of each bad frame are sent.
const OF_EACH: u64 = 3;
/// How many bad frames are sent in all.
pub(crate) const BAD_FRAMES: u64 = OF_EACH * frames::KINDS as u64;

/// Frames that must be counted and dropped, each at its own node, and nothing else with them.
pub(crate) fn bad_frames(
    peer: &mut dyn Peer,
    port: u16,
    counters: &mut dyn FnMut() -> Result<Counters, ClientError>,
    outcome: &mut Outcome,
) -> Result<(), DemoError> {
    // That answers can be seen at all: a frame with nothing wrong gets one.
    peer.send_frame(&frames::good_frame(&peer.ends(), port))?;
    let answered = peer.receive(Over::V4, &mut [0; 2048], PATIENCE)?;
    outcome.compare(
        "answers to a hand-made frame that is right",
        1,
        usize::from(answered.is_some()),
    );
    for bad in frames::bad_frames(&peer.ends(), port) {
        let before = counters()?;
        for _ in 0..OF_EACH {
            peer.send_frame(&bad.frame)?;
        }
        let dropped =
            wait_for(counters, |now| drops_at(now, bad.node) - drops_at(&before, bad.node))?;
        let name = format!("{}, dropped at {}", bad.what, bad.node);
        outcome.compare(&name, OF_EACH, dropped);
    }
    let answered = peer.receive(Over::V4, &mut [0; 2048], Duration::from_millis(50))?;
    outcome.compare("answers to bad frames", 0, usize::from(answered.is_some()));
    Ok(())
}

/// Asks for the counters until `count` has reached what was sent, or patience ends.
fn wait_for(
    counters: &mut dyn FnMut() -> Result<Counters, ClientError>,
    count: impl Fn(&Counters) -> u64,
) -> Result<u64, ClientError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = count(&counters()?);
        if seen >= OF_EACH || Instant::now() >= deadline {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
