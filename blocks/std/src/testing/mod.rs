//! Help for tests: frames to send, an independent look at them, and a host in a box. For this
//! crate, fuzz targets and tests of graphs.

pub mod frames;
pub mod frames6;
#[cfg(feature = "testing")]
pub mod host;
#[cfg(feature = "testing")]
pub mod link;
#[cfg(feature = "testing")]
pub mod two;
#[cfg(feature = "testing")]
pub use {host::HostBox, link::LinkBox, two::TwoWorkers};

use std::sync::Arc;

use weever_block::Env;
use weever_graph::Field;
use weever_wire::fields::Parsed;

/// The start of a test's host: nothing but a secret that is the same in every run, so that which
/// keys share a place in a table, and with it the result of the test, does not depend on the run.
pub fn env() -> Env {
    let env = Env::new();
    env.provide(Arc::new(crate::host::Secret::from_seed(1)));
    env
}

/// The value of a field in a frame that was walked over: what quicker ways of reading it are held to.
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
        Field::FrameGroup => parsed.eth_dst.map(|mac| mac.is_multicast().into()),
        Field::FrameVlan => parsed.eth_dst.map(|_| parsed.vlan.unwrap_or(0).into()),
        Field::EthOuter => parsed.outer_type.map(u128::from),
        Field::VlanType => parsed.tag_type.map(u128::from),
        Field::VlanInner => parsed.inner_vlan.map(u128::from),
        Field::ArpSha => parsed.arp_sha.map(|mac| mac.to_bits().into()),
        Field::ArpSpa => parsed.arp_spa.map(|ip| ip.to_bits().into()),
        Field::L3Len => parsed.l3.map(|l3| (parsed.frame_len - l3) as u128),
        Field::Ip4Hlen => parsed.ip4_header_len.map(|len| len as u128),
        Field::Ip4Tos => parsed.ip4_tos.map(u128::from),
        Field::Ip4Len => parsed.ip4_total_len.map(|len| len as u128),
        Field::Ip4Alert => parsed.ip4_alert.map(u128::from),
        Field::Ip6Len => parsed.ip6_total_len.map(|len| len as u128),
        Field::Ip6Hops => parsed.ip6_hops.map(u128::from),
        Field::Ip6Alert => parsed.ip6_alert.map(u128::from),
        Field::IpUpper => parsed.upper.map(u128::from),
        Field::L4Len => parsed.payload_len.map(|len| len as u128),
        Field::IgmpType => parsed.igmp_type.map(u128::from),
        Field::IgmpCode => parsed.igmp_code.map(u128::from),
        Field::IgmpGroup => parsed.igmp_group.map(|ip| ip.to_bits().into()),
        Field::Icmp6Type => parsed.icmp6_type.map(u128::from),
        Field::Icmp6Code => parsed.icmp6_code.map(u128::from),
        Field::UdpLen => parsed.udp_len.map(u128::from),
    }
}
