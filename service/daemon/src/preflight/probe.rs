//! Checks whether an address is in use on a network (RFC 5227 §2.1.1).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, sendto};
use socket2::{Domain, Protocol, Socket, Type};
use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, ArpView, PACKET_LEN, op};
use weever_wire::ethernet::{EthernetRepr, HEADER_LEN, ethertype};

/// The RFC waits one to two seconds between probes, for networks on which a switch has just come
/// up; here a human waits, and the device has been up before.
const PROBES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// Ethernet's shortest frame, without its checksum.
const SHORTEST_FRAME: usize = 60;

/// Probes `address` (ARP) on the device of `link`, whose hardware address is `mac`. Gives the
/// hardware address of the first other host that claims it.
///
/// The question goes through the kernel, before the stack takes its queues.
pub(super) fn ask(link: LinkAddr, mac: MacAddr, address: Ipv4Addr) -> io::Result<Option<MacAddr>> {
    let protocol = Protocol::from(i32::from(ethertype::ARP.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
    let frame = question(mac, address)?;
    for _ in 0..PROBES {
        sendto(socket.as_raw_fd(), &frame, &link, MsgFlags::empty())?;
        if let Some(owner) = listen(&socket, link.ifindex(), mac, address)? {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

fn question(mac: MacAddr, address: Ipv4Addr) -> io::Result<[u8; SHORTEST_FRAME]> {
    let mut frame = [0; SHORTEST_FRAME];
    let ethernet = EthernetRepr { dst: MacAddr::BROADCAST, src: mac, ethertype: ethertype::ARP };
    // RFC 5227 §2.1.1: "The 'sender IP address' field MUST be set to all zeroes".
    let arp = ArpRepr {
        op: op::REQUEST,
        sha: mac,
        spa: Ipv4Addr::UNSPECIFIED,
        tha: MacAddr::ZERO,
        tpa: address,
    };
    ethernet.emit(&mut frame).map_err(io::Error::other)?;
    arp.emit(&mut frame[HEADER_LEN..]).map_err(io::Error::other)?;
    Ok(frame)
}

fn listen(
    socket: &Socket,
    index: usize,
    own: MacAddr,
    address: Ipv4Addr,
) -> io::Result<Option<MacAddr>> {
    let until = Instant::now() + PAUSE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut frame = [0; HEADER_LEN + PACKET_LEN];
        let (length, from) = match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut frame) {
            Ok(received) => received,
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let here = from.is_some_and(|from| from.ifindex() == index);
        let claim = claimant(&frame[..length], address).filter(|sender| here && *sender != own);
        if claim.is_some() {
            return Ok(claim);
        }
    }
}

/// The station that claims `address` in this frame: the sender of any ARP packet that gives it as
/// its own, or of a probe for it (RFC 5227 §2.1.1, two hosts that start at once).
fn claimant(frame: &[u8], address: Ipv4Addr) -> Option<MacAddr> {
    let arp = ArpView::new(frame.get(HEADER_LEN..)?).ok()?.header();
    let probes = arp.op() == op::REQUEST && arp.spa().is_unspecified() && arp.tpa() == address;
    (arp.spa() == address || probes).then(|| arp.sha())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const WANTED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn frame(op: u16, spa: Ipv4Addr, tpa: Ipv4Addr) -> Vec<u8> {
        let mut frame = vec![0; HEADER_LEN + PACKET_LEN];
        let arp = ArpRepr { op, sha: OTHER, spa, tha: MacAddr::ZERO, tpa };
        arp.emit(&mut frame[HEADER_LEN..]).unwrap();
        frame
    }

    #[test]
    fn claims_are_told_from_other_arp_packets() {
        let (nobody, other) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 0, 2));
        for (op, spa, tpa, claims) in [
            (op::REPLY, WANTED, nobody, true),
            (op::REQUEST, WANTED, other, true),
            (op::REQUEST, nobody, WANTED, true),
            (op::REQUEST, other, WANTED, false),
            (op::REPLY, other, WANTED, false),
        ] {
            assert_eq!(claimant(&frame(op, spa, tpa), WANTED), claims.then_some(OTHER));
        }
        assert_eq!(claimant(&[0; 20], WANTED), None);
    }

    #[test]
    fn the_question_is_a_probe_as_the_rfc_wants_it() {
        let frame = question(OTHER, WANTED).unwrap();
        assert_eq!(&frame[..6], [0xff; 6]);
        let arp = ArpView::new(&frame[HEADER_LEN..]).unwrap().header();
        assert_eq!((arp.sha(), arp.spa(), arp.tpa()), (OTHER, Ipv4Addr::UNSPECIFIED, WANTED));
    }
}
