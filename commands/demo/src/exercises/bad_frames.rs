//! Frames that must not get through.

use std::time::{Duration, Instant};

use weever_service_api::{ClientError, Counters, CountersRequest};

use super::PATIENCE;
use crate::frames;
use crate::layers::{drops, drops_at};
use crate::peer::{Over, Peer};
use crate::stage::Control;
use crate::steps::{Finding, Steps};

/// How many of each bad frame are sent.
const OF_EACH: u64 = 3;

/// Frames that must be counted and dropped, each at its own node, and nothing else with them.
pub(crate) fn bad_frames(peer: &mut dyn Peer, port: u16, control: &mut Control, steps: &mut Steps) {
    steps.run("a hand-made frame that is right is answered", |deadline| {
        peer.send_frame(&frames::good_frame(&peer.ends(), port))?;
        let answer = peer.receive(Over::V4, &mut [0; 2048], deadline.at_most(PATIENCE))?;
        Ok(Finding::compare("1 answer", if answer.is_some() { "1 answer" } else { "no answer" }))
    });
    let before = control.ask(|client| client.call(&CountersRequest {}));
    for bad in frames::bad_frames(&peer.ends(), port) {
        steps.run(&format!("{}, dropped at {}", bad.what, bad.node), |_| {
            let before = control.ask(|client| client.call(&CountersRequest {}))?;
            for _ in 0..OF_EACH {
                peer.send_frame(&bad.frame)?;
            }
            let count = |now: &Counters| drops_at(now, bad.node) - drops_at(&before, bad.node);
            let dropped = wait_for(control, count)?;
            Ok(Finding::compare(format!("{OF_EACH} dropped"), format!("{dropped} dropped")))
        });
    }
    steps.run("nothing else is dropped, and no bad frame answered", |_| {
        let sent = OF_EACH * frames::KINDS as u64;
        let answer = peer.receive(Over::V4, &mut [0; 2048], Duration::from_millis(50))?;
        let dropped =
            drops(&control.ask(|client| client.call(&CountersRequest {}))?) - drops(&before?);
        let found = format!("{dropped} dropped, {} answered", usize::from(answer.is_some()));
        Ok(Finding::compare(format!("{sent} dropped, 0 answered"), found))
    });
}

/// Asks for the counters until `count` has reached the number of sent frames, or patience ends.
fn wait_for(control: &mut Control, count: impl Fn(&Counters) -> u64) -> Result<u64, ClientError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = count(&control.ask(|client| client.call(&CountersRequest {}))?);
        if seen >= OF_EACH || Instant::now() >= deadline {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
