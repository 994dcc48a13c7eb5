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
mod tests {
    use super::*;
    use crate::addr::{Cidr, Locals};
    use crate::iface::Interface;
    use crate::ipv4::template;
    use crate::route::{Route, Way};
    use crate::state::NetConfig;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weever_wire::MacAddr;

    const LEFT: IfaceId = IfaceId(0);
    const RIGHT: IfaceId = IfaceId(1);
    const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn config() -> NetConfig {
        let mut config =
            NetConfig::single(MacAddr([2, 0, 0, 0, 0, 1]), &["10.0.0.1/24".parse().unwrap()]);
        let v4 = Locals::new(&["10.1.0.1/24".parse().unwrap()]);
        let right = Interface::new(RIGHT, "right", 1, MacAddr([2, 0, 0, 0, 0, 2])).with_v4(v4);
        config.add_interface(right.with_mtu(1000)).unwrap();
        for (to, way) in [
            ("10.2.0.0/16", Way::Unreachable),
            ("10.3.0.0/16", Way::Prohibited),
            ("10.4.0.0/16", Way::Blackhole),
            ("10.5.0.0/16", Way::Via(Ipv4Addr::new(10, 1, 0, 9))),
        ] {
            config.add_route(Route::new(to.parse::<Cidr>().unwrap(), way)).unwrap();
        }
        config
    }

    fn header(dst: &str, ttl: u8, len: u16, flags_frag: u16) -> [u8; 20] {
        let mut header = [0; 20];
        let mut repr = template(FROM, dst.parse().unwrap(), protocol::UDP, len - 20);
        (repr.ttl, repr.flags_frag) = (ttl, flags_frag);
        // Only the header is looked at.
        let mut whole = std::vec![0; len.into()];
        repr.emit(&mut whole).unwrap();
        header.copy_from_slice(&whole[..20]);
        header
    }

    #[test]
    fn where_a_datagram_goes() {
        let state = NetState::new(config(), 1);
        let decide = |header: &[u8; 20]| {
            let header = Ipv4Header::of(header);
            forward(&state, LEFT, state.route4(header.dst()), header)
        };
        let (df, long) = (0x4000, 1001);
        let hop = |dst: &str| state.route4(dst.parse().unwrap()).unwrap();
        for (dst, ttl, len, flags, wanted) in [
            ("10.1.0.7", 64, 100, df, Forward::Pass(hop("10.1.0.7"))),
            ("10.5.0.7", 2, 1000, df, Forward::Pass(hop("10.5.0.7"))),
            ("10.1.0.7", 1, 100, df, Forward::Report(Cause::TimeExceeded)),
            ("10.2.0.7", 0, 100, df, Forward::Report(Cause::TimeExceeded)),
            ("10.1.0.7", 64, long, df, Forward::Report(Cause::FragmentationNeeded { mtu: 1000 })),
            ("10.1.0.7", 64, long, 0, Forward::Fragment { hop: hop("10.1.0.7"), mtu: 1000 }),
            ("10.2.0.7", 64, 100, df, Forward::Report(Cause::HostUnreachable)),
            ("10.3.0.7", 64, 100, df, Forward::Report(Cause::Prohibited)),
            ("10.4.0.7", 64, 100, df, Forward::Refused),
            ("8.8.8.8", 64, 100, df, Forward::Report(Cause::NetUnreachable)),
            ("10.1.0.255", 64, 100, df, Forward::Refused),
        ] {
            assert_eq!(decide(&header(dst, ttl, len, flags)), wanted, "{dst} {ttl} {len}");
        }
        assert_eq!(
            hop("10.5.0.7").neighbour("10.5.0.7".parse().unwrap()),
            Ipv4Addr::new(10, 1, 0, 9)
        );
    }

    #[test]
    fn an_interface_may_be_kept_out() {
        let mut config = config();
        config.set_forwarding(LEFT, false).unwrap();
        let state = NetState::new(config, 1);
        let header = header("10.1.0.7", 64, 100, 0);
        let header = Ipv4Header::of(&header);
        assert_eq!(forward(&state, LEFT, state.route4(header.dst()), header), Forward::Refused);
    }

    #[test]
    fn options_that_pass() {
        for (area, passes) in [
            (&[1, 1, 1, 0][..], true),
            (&[148, 4, 0, 0], true),
            (&[130, 3, 0, 0], true),
            (&[7, 7, 4, 0, 0, 0, 0, 0], false),
            (&[68, 4, 5, 0], false),
            (&[99, 4, 0, 0], false),
            (&[148, 9, 0, 0], false),
        ] {
            assert_eq!(options_may_pass(area), passes, "{area:?}");
        }
    }

    fn segment(protocol: u8, len: usize) -> ([u8; 20], std::vec::Vec<u8>) {
        let mut packet = std::vec![0x5a; 20 + len];
        let repr = template(FROM, Ipv4Addr::new(10, 1, 0, 7), protocol, len as u16);
        repr.emit(&mut packet).unwrap();
        (*packet.first_chunk().unwrap(), packet[20..].to_vec())
    }

    proptest! {
        #[test]
        fn partial_checksums_are_completed(tcp: bool, payload in vec(any::<u8>(), 20..200)) {
            let protocol = if tcp { protocol::TCP } else { protocol::UDP };
            let at = if tcp { 16 } else { 6 };
            let (header, _) = segment(protocol, payload.len());
            let header = Ipv4Header::of(&header);
            let pseudo = Pseudo::v4(&header.addresses(), protocol, payload.len() as u16);
            let mut partial = payload;
            partial[at..at + 2].copy_from_slice(&pseudo.sum().to_be_bytes());
            prop_assert!(complete_partial(header, &mut partial));
            prop_assert!(pseudo.verifies(&partial));
            let whole = partial.clone();
            // A whole one may look partial by chance; it is wrong after that, which is why only links
            // between software ends may say that theirs are partial.
            prop_assert!(!complete_partial(header, &mut partial) || pseudo.sum() == u16::from_be_bytes([whole[at], whole[at + 1]]));
        }
    }

    #[test]
    fn what_has_no_checksum_to_complete_is_left_alone() {
        for (protocol, len) in [(protocol::ICMP, 40), (protocol::UDP, 7), (protocol::TCP, 17)] {
            let (header, mut bytes) = segment(protocol, len);
            let before = bytes.clone();
            assert!(!complete_partial(Ipv4Header::of(&header), &mut bytes), "{protocol}");
            assert_eq!(bytes, before);
        }
    }
}
