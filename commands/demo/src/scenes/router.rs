//! weever as a router between hosts of the kernel's.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::net::{Errors, NARROW, Net, SERVICE, SETTLING, Side, TWICE, answers, bound, talk};
use super::routed;
use crate::exercises::PATIENCE;
use crate::kernel::{EMSGSIZE, Talk, timed_out};
use crate::outcome::DemoError;
use crate::payloads;
use crate::peer::{Over, PeerError};
use crate::steps::{BOUND, Deadline, Finding, Steps};

/// Nobody listens there.
const CLOSED: u16 = 4001;
/// Everything that a router of three networks shows. `lacks_ipv6` is why there is none.
pub(crate) fn router(steps: &mut Steps, control: &Path, lacks_ipv6: Option<&str>) {
    let net = steps.attempt(BOUND, "router: weever starts", |_| {
        let net = Net::start(control, lacks_ipv6.is_none())?;
        let mode = net.stack.status().mode;
        Ok((net, Finding::ok(mode)))
    });
    let Some(mut net) = net else { return };
    for over in [Over::V4, Over::V6] {
        let name = over.name();
        let echo = format!("router: ICMP echo both ways over {name}");
        let udp = format!("router: UDP to 9,000 bytes both ways over {name}, MTU {NARROW}");
        match lacks_ipv6.filter(|_| over == Over::V6) {
            None => {
                steps.run(&echo, |deadline| pings(&net, over, deadline));
                steps.run(&udp, |deadline| datagrams(&net, over, deadline));
            }
            Some(reason) => [echo, udp].iter().for_each(|step| steps.skip(step, reason)),
        }
    }
    errors(&net, steps);
    let name = "router: a route changes twice while in use";
    steps.run(name, |_| routed::a_route_changes(&mut net));
    come_and_go(&mut net, steps);
    steps.run("router: weever stops, and no worker has failed", |_| {
        let report = net.stack.stop();
        let failure = report.failure.map_or_else(|| "none failed".to_owned(), |f| f.to_string());
        Ok(Finding::compare("none failed", &failure))
    });
}

/// Echo requests in both directions; the replies' time to live has lost one.
fn pings(net: &Net, over: Over, deadline: Deadline) -> Result<Finding, DemoError> {
    const TIMES: usize = 10;
    let (mut answered, mut ttls) = (0, Vec::new());
    for (near, far) in [(&net.left, &net.right), (&net.right, &net.left)] {
        let mut talk = talk(near, address(far, over))?;
        answers(&mut talk, deadline.at_most(SETTLING))?;
        for n in 0..TIMES {
            let payload = payloads::bytes(n as u64, 100 * n);
            let reply = talk.ping(&payload, deadline.at_most(PATIENCE))?;
            let Some(reply) = reply else { continue };
            answered += usize::from(reply.payload == payload);
            ttls.push(reply.ttl);
        }
    }
    ttls.sort_unstable();
    ttls.dedup();
    let (expected, found) = (format!("{} answered", 2 * TIMES), format!("{answered} answered"));
    Ok(match over {
        Over::V4 => Finding::compare(
            format!("{expected}, time to live [63]"),
            format!("{found}, time to live {ttls:?}"),
        ),
        // A raw socket does not see the hop limit.
        _ => Finding::compare(expected, found),
    })
}

fn address(side: &Side, over: Over) -> IpAddr {
    match over {
        Over::V4 => side.v4().into(),
        _ => side.v6().into(),
    }
}

/// Datagrams to an echoing socket at the other side, in both directions, long ones too.
fn datagrams(net: &Net, over: Over, deadline: Deadline) -> Result<Finding, DemoError> {
    let lengths = [0, 1, 64, 512, 1372, 1452, 4000, 9000];
    let mut intact = 0;
    for (near, far) in [(&net.left, &net.right), (&net.right, &net.left)] {
        let to = address(far, over);
        let service = bound(far.namespace(), to, SERVICE)?;
        let mut talk = talk(near, to)?;
        for len in lengths {
            intact += usize::from(echoed(&mut talk, &service, len, deadline)?);
        }
    }
    let all = 2 * lengths.len();
    Ok(Finding::compare(format!("{all} echoed"), format!("{intact} echoed")))
}

/// Whether a datagram of this length comes back as it was. The first long one may be lost: it tells
/// the sender how narrow the way is. Others may be late on a busy machine.
fn echoed(
    talk: &mut Talk,
    service: &UdpSocket,
    len: usize,
    deadline: Deadline,
) -> Result<bool, PeerError> {
    let (payload, mut buffer) = (payloads::bytes(len as u64, len), vec![0; 10_000]);
    for _ in 0..10 {
        if deadline.is_over() {
            break;
        }
        talk.send_or_told(&payload)?;
        if !echo_once(service, &mut buffer)? {
            continue;
        }
        let got = talk.receive(&mut buffer, Duration::from_millis(500))?;
        if got.is_some_and(|n| buffer[..n] == payload) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sends one datagram back; whether one came.
fn echo_once(socket: &UdpSocket, buffer: &mut [u8]) -> Result<bool, PeerError> {
    let (len, from) = match socket.recv_from(buffer) {
        Err(e) if timed_out(&e) => return Ok(false),
        other => other.map_err(PeerError::of("UDP receive"))?,
    };
    match socket.send_to(&buffer[..len], from) {
        // Longer than the way is wide, as it has just heard: the next one is cut up.
        Err(e) if e.raw_os_error() == Some(EMSGSIZE) => Ok(false),
        other => other.map(|_| true).map_err(PeerError::of("UDP send")),
    }
}

/// The ICMP errors about packets that cannot be forwarded or delivered.
fn errors(net: &Net, steps: &mut Steps) {
    let (left, right) = (&net.left, &net.right);
    let absent = Ipv4Addr::from_bits(right.v4().to_bits() + 90);
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
    let (router, far) = (left.router(), right.v4());
    for (what, to, port, ttl, len, by, kind, code) in [
        ("time to live spent", right.v4(), SERVICE, 1, 8, router, 11, 0),
        ("closed port behind it", right.v4(), CLOSED, 64, 8, far, 3, 3),
        ("too long, and not to be fragmented", TWICE, SERVICE, 64, 1450, router, 3, 4),
        ("no route", elsewhere, SERVICE, 64, 8, router, 3, 0),
        ("nobody has the address", absent, SERVICE, 64, 8, router, 3, 1),
    ] {
        steps.run(&format!("router: ICMP error: {what}"), |_| {
            let mut heard = Errors::open(left)?;
            let socket = bound(left.namespace(), left.v4().into(), 0)?;
            socket.set_ttl(ttl).map_err(PeerError::of("UDP socket"))?;
            let sent = socket.send_to(&payloads::bytes(1, len), (to, port));
            sent.map_err(PeerError::of("UDP send"))?;
            let found = heard.next(to, SETTLING)?;
            let found =
                found.map_or_else(|| "nothing".to_owned(), |(by, kind, code)| told(by, kind, code));
            Ok(Finding::compare(told(by, kind, code), found))
        });
    }
}

fn told(by: Ipv4Addr, kind: u8, code: u8) -> String {
    format!("type {kind} code {code} from {by}")
}

/// A neighbour that is new to weever.
const NEW: u32 = 40;

/// The comings and goings of the host on the router's other side, as seen from `left`.
pub(super) fn come_and_go(net: &mut Net, steps: &mut Steps) {
    let address = Ipv4Addr::from_bits(net.right.v4().to_bits() + NEW);
    let talk = steps.attempt(BOUND, "router: a neighbour is found", |_| {
        net.right.end.add_address(address, 24)?;
        let mut talk = talk(&net.left, address)?;
        let found = answer(&mut talk)?;
        Ok((talk, found))
    });
    // Of one that was not found, nothing else can be seen.
    let Some(mut talk) = talk else { return };
    let (right, name) = (net.right.namespace().clone(), net.right.end.name.clone());
    steps.run("router: a neighbour moves to another MAC address", |_| {
        // It announces that by an ARP packet that nobody has asked for.
        right.sysctl(&format!("net/ipv4/conf/{name}/arp_notify"), "1")?;
        right.set_mac(&name, [2, 0x78, 0, 0, 0, 2])?;
        answer(&mut talk)
    });
    steps.run("router: a neighbour is gone", |_| {
        right.sysctl(&format!("net/ipv4/conf/{name}/arp_notify"), "0")?;
        right.sysctl(&format!("net/ipv4/conf/{name}/arp_ignore"), "8")?;
        right.set_mac(&name, [2, 0x78, 0, 0, 0, 3])?;
        // The cable is pulled, so that weever has to ask for the neighbour again.
        net.set("interface.port1.up=off")?;
        net.set("interface.port1.up=on")?;
        Ok(Finding::compare("host unreachable", lost(net, address)?))
    });
    steps.run("router: a neighbour comes back at another MAC address", |_| {
        right.sysctl(&format!("net/ipv4/conf/{name}/arp_ignore"), "0")?;
        answer(&mut talk)
    });
}

fn answer(talk: &mut Talk) -> Result<Finding, DemoError> {
    let found = if answers(talk, SETTLING)? { "it answers" } else { "no answer" };
    Ok(Finding::compare("it answers", found))
}

/// Answers to datagrams to an address. The first may still go to the old neighbour.
fn lost(net: &Net, address: Ipv4Addr) -> Result<&'static str, DemoError> {
    let mut errors = Errors::open(&net.left)?;
    let socket = bound(net.left.namespace(), net.left.v4().into(), 0)?;
    let deadline = Instant::now() + SETTLING;
    while Instant::now() < deadline {
        let sent = socket.send_to(&payloads::bytes(1, 8), (address, SERVICE));
        sent.map_err(PeerError::of("UDP send"))?;
        match errors.next(address, Duration::from_millis(500))? {
            Some((by, 3, 1)) if by == net.left.router() => return Ok("host unreachable"),
            Some(_) => return Ok("another error"),
            None => {}
        }
    }
    Ok("nothing")
}
