//! Whether a router passes a datagram on, and where to (RFC 1812 §5).

use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Header, Ipv4Options, option_kind, protocol};
use weever_wire::udp;

use core::net::Ipv4Addr;

use super::may_forward;
use crate::icmp::Cause;
use crate::iface::IfaceId;
use crate::route::{Hop, Kind};
use crate::state::NetState;

/// Where UDP has its checksum (RFC 768).
const UDP_CHECKSUM: usize = 6;
/// Where TCP has its checksum (RFC 9293 §3.1).
const TCP_CHECKSUM: usize = 16;
/// Security labels of RFC 1108 and CIPSO.
const LABELS: [u8; 3] = [130, 133, 134];

/// How a datagram for another host is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward<'a> {
    /// It goes there.
    Pass(&'a Hop<Ipv4Addr>),
    /// It goes there in pieces of at most `mtu` bytes.
    Fragment {
        /// Where.
        hop: &'a Hop<Ipv4Addr>,
        /// Bytes of the longest piece, header included.
        mtu: u16,
    },
    /// It is dropped, and its sender told why.
    Report(Cause),
    /// It is dropped: a route or an interface says so.
    Refused,
}

/// Decides on a datagram with a sound header and a possible source, which `iface` received in a
/// frame for us alone. `route` is the result of the lookup of its destination.
#[inline]
pub fn forward<'a>(
    state: &'a NetState,
    iface: IfaceId,
    route: Option<&'a Hop<Ipv4Addr>>,
    header: Ipv4Header<'_>,
) -> Forward<'a> {
    if !state.interface(iface).is_some_and(|iface| iface.forwarding) {
        return Forward::Refused;
    }
    // RFC 1812 §5.3.1: the time to live is looked at before anything is said about the way.
    if !may_forward(header) {
        return Forward::Report(Cause::TimeExceeded);
    }
    let Some(hop) = route else { return Forward::Report(Cause::NetUnreachable) };
    match hop.kind {
        Kind::Unicast => fits(state, hop, header),
        Kind::Unreachable => Forward::Report(Cause::HostUnreachable),
        Kind::Prohibited => Forward::Report(Cause::Prohibited),
        _ => Forward::Refused,
    }
}

#[inline]
fn fits<'a>(state: &NetState, hop: &'a Hop<Ipv4Addr>, header: Ipv4Header<'_>) -> Forward<'a> {
    let Some(out) = state.interface(hop.iface) else { return Forward::Refused };
    if header.total_len() <= usize::from(out.mtu) {
        Forward::Pass(hop)
    } else if header.dont_fragment() {
        Forward::Report(Cause::FragmentationNeeded { mtu: out.mtu })
    } else {
        Forward::Fragment { hop, mtu: out.mtu }
    }
}

/// RFC 7126: whether a router passes on a datagram with these options, the bytes behind the fixed
/// header. Padding, router alerts (§4.8) and security labels (§4.12 to §4.14) are; options that record a
/// route or a time (§4.5, §4.9), and unknown ones (§4.23), are not. Malformed ones are not either.
pub fn options_may_pass(area: &[u8]) -> bool {
    let passes = |kind: u8| kind == option_kind::ROUTER_ALERT || LABELS.contains(&kind);
    Ipv4Options::new(area).all(|option| option.is_ok_and(|option| passes(option.kind)))
}

/// Where `segment`, which the IPv4 datagram of this header carries, has a partial checksum of UDP or
/// TCP: the field then holds the pseudo-header's sum, which only a sender's kernel that left the rest
/// to a device writes there.
fn partial(header: Ipv4Header<'_>, segment: &[u8]) -> Option<(usize, Pseudo)> {
    let at = match header.protocol() {
        _ if header.is_fragment() => return None,
        protocol::UDP => UDP_CHECKSUM,
        protocol::TCP => TCP_CHECKSUM,
        _ => return None,
    };
    let length = u16::try_from(segment.len()).ok()?;
    let pseudo = Pseudo::v4(&header.addresses(), header.protocol(), length);
    let field = segment.get(at..at + 2)?;
    pseudo.is_partial(u16::from_be_bytes([field[0], field[1]])).then_some((at, pseudo))
}

/// Whether the segment that the datagram of this header carries has a partial checksum.
pub fn is_partial(header: Ipv4Header<'_>, segment: &[u8]) -> bool {
    partial(header, segment).is_some()
}

/// Completes a partial checksum of UDP or TCP. `segment` is the payload of the IPv4 datagram with
/// this header; true if its checksum was partial.
pub fn complete_partial(header: Ipv4Header<'_>, segment: &mut [u8]) -> bool {
    let Some((at, pseudo)) = partial(header, segment) else { return false };
    segment[at..at + 2].fill(0);
    let check = udp::never_zero(pseudo.checksum(segment));
    segment[at..at + 2].copy_from_slice(&check.to_be_bytes());
    true
}

#[cfg(test)]
mod tests;
