//! What the peer tries on the stack. The same for every peer.

mod bad_frames;
mod live;

use std::time::{Duration, Instant};

use weever_service_api::{ClientError, Counters};

use crate::error::DemoError;
use crate::outcome::Outcome;
use crate::pattern::{self, HEADER};
use crate::peer::{Over, Peer, PeerError};

pub(crate) use bad_frames::{BAD_FRAMES, bad_frames};
pub(crate) use live::changes_under_load;

/// How long an answer may take before it counts as lost. Generous: a loaded machine is no fault of
/// the stack.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a fresh stack may take to make sure of its IPv6 addresses (RFC 4862 §5.4).
const SETTLING: Duration = Duration::from_secs(8);

/// Datagrams in flight at once: few enough that no queue between the hosts overflows.
pub(crate) const WINDOW: u64 = 32;

/// Waits until the stack answers at all of its addresses, or patience ends. What does not answer is
/// found out by the exercises.
pub(crate) fn settle(peer: &mut dyn Peer) -> Result<(), PeerError> {
    let deadline = Instant::now() + SETTLING;
    for over in Over::ALL {
        while peer.ping(over, b"there?", Duration::from_millis(100))?.is_none()
            && Instant::now() < deadline
        {}
    }
    Ok(())
}

/// ICMP echo with payloads of several sizes, up to a full frame.
pub(crate) fn ping(
    peer: &mut dyn Peer,
    over: Over,
    outcome: &mut Outcome,
) -> Result<(), PeerError> {
    let sizes = [0, 1, 56, 57, 512, over.room()];
    let mut answered = 0;
    for size in sizes {
        let payload = pattern::bytes(size as u64, size);
        let back = peer.ping(over, &payload, PATIENCE)?;
        answered += usize::from(back.as_deref() == Some(&payload[..]));
    }
    let name = format!("{}: ICMP echo, 0 to {} bytes", over.name(), over.room());
    outcome.compare(&name, sizes.len(), answered);
    Ok(())
}

/// UDP echo of every length that fits a frame, one at a time.
pub(crate) fn every_length(
    peer: &mut dyn Peer,
    over: Over,
    outcome: &mut Outcome,
) -> Result<(), PeerError> {
    let intact = echoes(peer, over, 1..=over.room())?;
    let name = format!("{}: UDP echo of every length from 1 to {} bytes", over.name(), over.room());
    outcome.compare(&name, over.room(), intact);
    Ok(())
}

/// Lengths of datagrams that take two to seven frames.
const LONG: [usize; 8] = [1473, 1481, 2960, 2961, 4000, 5921, 8192, 9000];
/// How often each is sent.
const TIMES: usize = 25;

/// UDP echo of datagrams that are cut up on their way there, and again on their way back. weever's
/// own count says so: it has put together and cut up each.
pub(crate) fn long(
    peer: &mut dyn Peer,
    over: Over,
    counters: &mut dyn FnMut() -> Result<Counters, ClientError>,
    outcome: &mut Outcome,
) -> Result<(), DemoError> {
    let before = own(&counters()?, "reassembled");
    let intact = echoes(peer, over, (0..TIMES).flat_map(|_| LONG))?;
    let whole = own(&counters()?, "reassembled") - before;
    let all = TIMES * LONG.len();
    let expected = format!("{all} echoed, {all} put together on arrival");
    let found = format!("{intact} echoed, {whole} put together on arrival");
    let name = format!("{}: UDP echo of 1,473 to 9,000 bytes in frames of 1,500", over.name());
    outcome.compare(&name, expected, found);
    Ok(())
}

/// What the stack's blocks have counted under a name.
fn own(counters: &Counters, name: &str) -> u64 {
    let all = counters.nodes.iter().flat_map(|node| &node.own);
    all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
}

/// How many datagrams of these lengths come back as they were.
fn echoes(
    peer: &mut dyn Peer,
    over: Over,
    lengths: impl Iterator<Item = usize>,
) -> Result<usize, PeerError> {
    let mut back = vec![0u8; 10_000];
    let mut intact = 0;
    for len in lengths {
        let payload = pattern::bytes(len as u64, len);
        peer.send(over, &payload)?;
        let got = peer.receive(over, &mut back, PATIENCE)?;
        intact += usize::from(got.is_some_and(|n| back[..n] == payload));
    }
    Ok(intact)
}

/// `count` datagrams of many sizes, a window of them in flight, each verified byte by byte.
pub(crate) fn stream(
    peer: &mut dyn Peer,
    over: Over,
    count: u64,
    outcome: &mut Outcome,
) -> Result<(), PeerError> {
    let started = Instant::now();
    let mut seen = vec![false; count as usize];
    let (mut sent, mut intact, mut wrong) = (0, 0, 0);
    let mut back = [0u8; 2048];
    while intact + wrong < count {
        while sent < count && sent - (intact + wrong) < WINDOW {
            peer.send(over, &pattern::datagram(sent))?;
            sent += 1;
        }
        let Some(len) = peer.receive(over, &mut back, PATIENCE)? else { break };
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
    let name = format!(
        "{}: {count} datagrams of {HEADER} to 1,452 bytes, {WINDOW} in flight",
        over.name()
    );
    outcome.record(&name, format!("{count} intact"), found, intact == count && wrong == 0);
    Ok(())
}
