//! Neighbours that come, go, move to another hardware address, and come back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::net::Net;
use super::router::{Errors, SERVICE, SETTLING, answers, bound, talk};
use crate::error::DemoError;
use crate::outcome::Outcome;
use crate::pattern;
use crate::peer::PeerError;

/// A neighbour that is new to weever.
const NEW: u32 = 40;

/// What happens to the host at the router's other side is seen from `left`.
pub(super) fn come_and_go(net: &mut Net, outcome: &mut Outcome) -> Result<(), DemoError> {
    let address = Ipv4Addr::from_bits(net.right.v4().to_bits() + NEW);
    net.right.end.add_address(address, 24)?;
    let mut talk = talk(&net.left, address)?;
    found("is found", answers(&mut talk, SETTLING)?, outcome);

    // It says so itself, by an ARP packet that nobody has asked for.
    let (right, name) = (net.right.namespace().clone(), net.right.end.name.clone());
    right.sysctl(&format!("net/ipv4/conf/{name}/arp_notify"), "1")?;
    right.set_mac(&name, [2, 0x78, 0, 0, 0, 2])?;
    found("moves to another MAC address and says so", answers(&mut talk, SETTLING)?, outcome);

    // It is gone, and the cable was pulled, so that weever has to ask for it again.
    right.sysctl(&format!("net/ipv4/conf/{name}/arp_notify"), "0")?;
    right.sysctl(&format!("net/ipv4/conf/{name}/arp_ignore"), "8")?;
    right.set_mac(&name, [2, 0x78, 0, 0, 0, 3])?;
    net.set("interface.port1.up=off")?;
    net.set("interface.port1.up=on")?;
    let lost = lost(net, address)?;
    outcome.compare("router: a neighbour is gone", "host unreachable", lost);
    right.sysctl(&format!("net/ipv4/conf/{name}/arp_ignore"), "0")?;
    found("comes back, with another MAC address", answers(&mut talk, SETTLING)?, outcome);
    Ok(())
}

fn found(what: &str, answers: bool, outcome: &mut Outcome) {
    let found = if answers { "it answers" } else { "no answer" };
    outcome.compare(&format!("router: a neighbour {what}"), "it answers", found);
}

/// What is heard of datagrams to an address. The first may still go where it was.
fn lost(net: &Net, address: Ipv4Addr) -> Result<&'static str, DemoError> {
    let mut errors = Errors::open(&net.left)?;
    let socket = bound(net.left.namespace(), net.left.v4().into(), 0)?;
    let deadline = Instant::now() + SETTLING;
    while Instant::now() < deadline {
        let sent = socket.send_to(&pattern::bytes(1, 8), (address, SERVICE));
        sent.map_err(PeerError::of("UDP send"))?;
        match errors.next(address, Duration::from_millis(500))? {
            Some((by, 3, 1)) if by == net.left.router() => return Ok("host unreachable"),
            Some(_) => return Ok("another error"),
            None => {}
        }
    }
    Ok("nothing")
}
