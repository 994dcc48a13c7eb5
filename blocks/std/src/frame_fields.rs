//! A frame's fields by the reference walk, as predicates ask for them.

use weever_graph::Field;
use weever_wire::fields::Parsed;

/// The value of `field` in a frame that was walked over.
pub fn field_of(parsed: &Parsed, field: Field) -> Option<u128> {
    match field {
        Field::EthDst => parsed.eth_dst.map(|mac| mac.to_bits().into()),
        Field::EthSrc => parsed.eth_src.map(|mac| mac.to_bits().into()),
        Field::EthType => parsed.ethertype.map(u128::from),
        Field::VlanId => parsed.vlan.map(u128::from),
        Field::ArpOp => parsed.arp_op.map(u128::from),
        Field::ArpTpa => parsed.arp_tpa.map(|ip| ip.to_bits().into()),
        Field::Ip4Src => parsed.ip4_src.map(|ip| ip.to_bits().into()),
        Field::Ip4Dst => parsed.ip4_dst.map(|ip| ip.to_bits().into()),
        Field::Ip4Proto => parsed.ip4_proto.map(u128::from),
        Field::Ip4Ttl => parsed.ip4_ttl.map(u128::from),
        Field::IpVersion => parsed.ip_version.map(u128::from),
        Field::Ip4Frag => parsed.ip4_frag.map(u128::from),
        Field::Ip6Src => parsed.ip6_src.map(|ip| ip.to_bits()),
        Field::Ip6Dst => parsed.ip6_dst.map(|ip| ip.to_bits()),
        Field::Ip6Next => parsed.ip6_next.map(u128::from),
        Field::IcmpType => parsed.icmp_type.map(u128::from),
        Field::IcmpCode => parsed.icmp_code.map(u128::from),
        Field::L4Src => parsed.l4_src.map(u128::from),
        Field::L4Dst => parsed.l4_dst.map(u128::from),
        Field::TcpFlags => parsed.tcp_flags.map(u128::from),
        Field::FrameLen => Some(parsed.frame_len as u128),
    }
}
