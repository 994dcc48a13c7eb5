//! The peer's exercises with the stack. The same for every peer.

mod bad_frames;
mod live;

use std::time::{Duration, Instant};

use weever_service_api::{Counters, CountersRequest};

use crate::outcome::DemoError;
use crate::payloads::{self, HEADER};
use crate::peer::{Over, Peer, PeerError};
use crate::stage::Control;
use crate::steps::{BOUND, Deadline, Finding, Steps};

pub(crate) use bad_frames::bad_frames;
pub(crate) use live::changes_under_load;

/// How long an answer may take before it counts as lost. Generous: a loaded machine is no fault of
/// the stack.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a fresh stack may take to make sure of its IPv6 addresses (RFC 4862 §5.4).
const SETTLING: Duration = Duration::from_secs(8);

/// Datagrams in flight at once: few enough that no queue between the hosts overflows.
pub(crate) const WINDOW: u64 = 32;

/// After this many missing answers in a row, the exercise ends.
const LOST_IN_A_ROW: usize = 3;

/// Everything over one kind of address. An address that does not answer is not tried further.
pub(crate) fn over(over: Over, peer: &mut dyn Peer, control: &mut Control, steps: &mut Steps) {
    let name = over.name();
    let answers = steps.attempt(BOUND, &format!("{name}: weever answers"), |deadline| {
        let answers = settle(peer, over, deadline)?;
        let found = if answers { "it does" } else { "no answer" };
        Ok(((), Finding::judged(answers, "an answer".into(), found.into())))
    });
    if answers.is_none() {
        steps.skip(&format!("{name}: everything else"), "weever does not answer at that address");
        return;
    }
    let room = over.room();
    steps.run(&format!("{name}: ICMP echo, 0 to {room} bytes"), |deadline| {
        let sizes = [0, 1, 56, 57, 512, room];
        let answered = pings(peer, over, &sizes, deadline)?;
        Ok(Finding::compare(format!("{} answered", sizes.len()), format!("{answered} answered")))
    });
    steps.run(&format!("{name}: UDP echo of every length, 1 to {room} bytes"), |deadline| {
        let intact = echoes(peer, over, 1..=room, deadline)?;
        Ok(Finding::compare(format!("{room} echoed"), format!("{intact} echoed")))
    });
    let long_name = format!("{name}: UDP echo, 1,473 to 9,000 bytes in fragments");
    if peer.sends_long(over) {
        steps.run(&long_name, |deadline| long(peer, over, control, deadline));
    } else {
        steps.skip(&long_name, format!("{} sends no fragments of IPv6", peer.name()));
    }
}

/// Waits until the stack answers: not before it is sure that nobody else has the address.
fn settle(peer: &mut dyn Peer, over: Over, deadline: Deadline) -> Result<bool, PeerError> {
    let settled = Deadline::after(deadline.at_most(SETTLING));
    while !settled.is_over() {
        if peer.ping(over, b"there?", Duration::from_millis(100))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many ICMP echo requests with payloads of these sizes are answered.
fn pings(
    peer: &mut dyn Peer,
    over: Over,
    sizes: &[usize],
    deadline: Deadline,
) -> Result<usize, PeerError> {
    let mut answered = 0;
    for size in sizes {
        let payload = payloads::bytes(*size as u64, *size);
        let back = peer.ping(over, &payload, deadline.at_most(PATIENCE))?;
        answered += usize::from(back.as_deref() == Some(&payload[..]));
    }
    Ok(answered)
}

/// Lengths of datagrams that take two to seven frames.
const LONG: [usize; 8] = [1473, 1481, 2960, 2961, 4000, 5921, 8192, 9000];
/// How often each is sent.
const TIMES: usize = 25;

/// UDP echo of datagrams that are fragmented on their way there, and again on their way back. The
/// stack's own counters have to agree.
fn long(
    peer: &mut dyn Peer,
    over: Over,
    control: &mut Control,
    deadline: Deadline,
) -> Result<Finding, DemoError> {
    let before = own(&control.ask(|client| client.call(&CountersRequest {}))?, "reassembled");
    let intact = echoes(peer, over, (0..TIMES).flat_map(|_| LONG), deadline)?;
    let whole =
        own(&control.ask(|client| client.call(&CountersRequest {}))?, "reassembled") - before;
    let all = TIMES * LONG.len();
    let expected = format!("{all} echoed, {all} reassembled");
    Ok(Finding::compare(expected, format!("{intact} echoed, {whole} reassembled")))
}

/// The counter of the stack's blocks with this name.
fn own(counters: &Counters, name: &str) -> u64 {
    let all = counters.nodes.iter().flat_map(|node| &node.own);
    all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
}

/// How many datagrams of these lengths come back as they were.
fn echoes(
    peer: &mut dyn Peer,
    over: Over,
    lengths: impl Iterator<Item = usize>,
    deadline: Deadline,
) -> Result<usize, PeerError> {
    let mut back = vec![0u8; 10_000];
    let (mut intact, mut lost) = (0, 0);
    for len in lengths {
        let payload = payloads::bytes(len as u64, len);
        peer.send(over, &payload)?;
        let got = peer.receive(over, &mut back, deadline.at_most(PATIENCE))?;
        intact += usize::from(got.is_some_and(|n| back[..n] == payload));
        lost = if got.is_none() { lost + 1 } else { 0 };
        if lost == LOST_IN_A_ROW || deadline.is_over() {
            break;
        }
    }
    Ok(intact)
}

/// `count` datagrams of many sizes, a window of them in flight, each verified byte by byte.
pub(crate) fn stream(peer: &mut dyn Peer, over: Over, count: u64, steps: &mut Steps) {
    let name = over.name();
    let name = format!("{name}: {count} datagrams of {HEADER} to 1,452 bytes, {WINDOW} in flight");
    // A machine that is busy still manages some thousands a second.
    let bound = BOUND + Duration::from_millis(count);
    steps.run_within(bound, &name, |deadline| {
        let started = Instant::now();
        let (intact, wrong) = verify_stream(peer, over, count, deadline)?;
        let rate = intact as f64 / started.elapsed().as_secs_f64();
        let found = format!("{intact} intact, {wrong} wrong, {rate:.0} per second");
        Ok(Finding::judged(intact == count && wrong == 0, format!("{count} intact"), found))
    });
}

/// How many came back intact, and how many otherwise.
fn verify_stream(
    peer: &mut dyn Peer,
    over: Over,
    count: u64,
    deadline: Deadline,
) -> Result<(u64, u64), PeerError> {
    let mut seen = vec![false; count as usize];
    let (mut sent, mut intact, mut wrong) = (0, 0, 0);
    let mut back = [0u8; 2048];
    while intact + wrong < count && !deadline.is_over() {
        while sent < count && sent - (intact + wrong) < WINDOW {
            peer.send(over, &payloads::datagram(sent))?;
            sent += 1;
        }
        let Some(len) = peer.receive(over, &mut back, deadline.at_most(PATIENCE))? else { break };
        match payloads::verify(&back[..len]).filter(|n| *n < count && !seen[*n as usize]) {
            Some(number) => {
                seen[number as usize] = true;
                intact += 1;
            }
            None => wrong += 1,
        }
    }
    Ok((intact, wrong))
}
