//! Neighbours that come, go, move to another hardware address, and come back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::hosts::{Errors, SERVICE, SETTLING, answers, bound, talk};
use super::net::Net;
use crate::error::DemoError;
use crate::pattern;
use crate::peer::PeerError;
use crate::steps::{BOUND, Finding, Steps};
use crate::talk::Talk;

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
