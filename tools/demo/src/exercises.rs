//! What the peer tries on the stack. The same for every peer.

use std::time::{Duration, Instant};

use weever_service_api::{ClientError, Counters};

use crate::error::DemoError;
use crate::frames;
use crate::layers::drops_at;
use crate::outcome::Outcome;
use crate::pattern::{self, HEADER};
use crate::peer::{Peer, PeerError};

/// How long an answer may take before it counts as lost. Generous: a loaded machine is no fault of
/// the stack.
const PATIENCE: Duration = Duration::from_secs(2);

/// Datagrams in flight at once: few enough that no queue between the hosts overflows.
const WINDOW: u64 = 32;

/// ICMP echo with payloads of several sizes, up to a full frame.
pub(crate) fn ping(peer: &mut dyn Peer, outcome: &mut Outcome) -> Result<(), PeerError> {
    let sizes = [0, 1, 56, 57, 512, 1472];
    let mut answered = 0;
    for size in sizes {
        let payload = pattern::bytes(size as u64, size);
        answered += usize::from(peer.ping(&payload, PATIENCE)?.as_deref() == Some(&payload[..]));
    }
    outcome.compare("ICMP echo, 0 to 1,472 bytes", sizes.len(), answered);
    Ok(())
}

/// UDP echo of every length from 1 to 1,472 bytes, one at a time.
pub(crate) fn every_length(peer: &mut dyn Peer, outcome: &mut Outcome) -> Result<(), PeerError> {
    let mut back = [0u8; 2048];
    let mut intact = 0;
    for len in 1..=1472usize {
        let payload = pattern::bytes(len as u64, len);
        peer.send(&payload)?;
        let got = peer.receive(&mut back, PATIENCE)?;
        intact += usize::from(got.is_some_and(|n| back[..n] == payload));
    }
    outcome.compare("UDP echo, every length from 1 to 1,472 bytes", 1472, intact);
    Ok(())
}

/// `count` datagrams of many sizes, a window of them in flight, each verified byte by byte.
pub(crate) fn stream(
    peer: &mut dyn Peer,
    count: u64,
    outcome: &mut Outcome,
) -> Result<(), PeerError> {
    let started = Instant::now();
    let mut seen = vec![false; count as usize];
    let (mut sent, mut intact, mut wrong) = (0, 0, 0);
    let mut back = [0u8; 2048];
    while intact + wrong < count {
        while sent < count && sent - (intact + wrong) < WINDOW {
            peer.send(&pattern::datagram(sent))?;
            sent += 1;
        }
        let Some(len) = peer.receive(&mut back, PATIENCE)? else { break };
        match pattern::verify(&back[..len]).filter(|n| *n < count && !seen[*n as usize]) {
            Some(number) => {
                seen[number as usize] = true;
                intact += 1;
            }
            None => wrong += 1,
        }
    }
    let rate = intact as f64 / started.elapsed().as_secs_f64();
    let found = format!("{intact} intact, {wrong} wrong, {:.0} per second", rate);
    let name = format!("{count} datagrams of {HEADER} to 1,472 bytes, {WINDOW} in flight");
    outcome.record(&name, format!("{count} intact"), found, intact == count && wrong == 0);
    Ok(())
}

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
    let answered = peer.receive(&mut [0; 2048], PATIENCE)?;
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
    let answered = peer.receive(&mut [0; 2048], Duration::from_millis(50))?;
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
