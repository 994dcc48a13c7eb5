//! The router's two links, its routes, and frames for them, of both families: the light load is the paper's l3fwd,
//! which looks IPv4 and IPv6 destinations up by longest prefix match.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weever_host::{HostBuilder, InterfaceConfig, Prefix, Route};
use weever_link::LinkInfo;
use weever_link::replay::ReplayConfig;
use weever_wire::MacAddr;
use weever_wire::ethernet::EthernetRepr;
use weever_wire::ipv6::Ipv6Repr;
use weever_wire::udp::UdpRepr;

use crate::BenchError;
use crate::crossing::{FAR, NEAR, SINK, SINK_MAC, SOURCE};
use crate::forward::NEAR_MAC;
use crate::rig::GENERATOR_MAC;
use crate::traffic::udp_frame;

/// Routes of each family, beside those to the links.
pub(super) const ROUTES: u32 = 1000;
/// Frames of each family, each to another destination.
const FRAMES: u32 = 127;
const PORT: u16 = 9;
/// The lengths of frames: over IPv4 Ethernet's minimum, over IPv6 with room for eight octets.
pub(super) const LENGTHS: [usize; 2] = [60, 70];

const SOURCE6: Ipv6Addr = Ipv6Addr::new(0xfd81, 0, 0, 0, 0, 0, 0, 1);
const NEAR6: Ipv6Addr = Ipv6Addr::new(0xfd81, 0, 0, 0, 0, 0, 0, 0xfe);
const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd82, 0, 0, 0, 0, 0, 0, 0xfe);
const SINK6: Ipv6Addr = Ipv6Addr::new(0xfd82, 0, 0, 0, 0, 0, 0, 1);
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// A link, the router's addresses there, and those of its neighbour.
struct Leg {
    name: &'static str,
    mac: [u8; 6],
    own: (Ipv4Addr, Ipv6Addr),
    neighbour: (Ipv4Addr, Ipv6Addr, [u8; 6]),
}

const LEGS: [Leg; 2] = [
    Leg {
        name: "near",
        mac: NEAR_MAC,
        own: (NEAR, NEAR6),
        neighbour: (SOURCE, SOURCE6, GENERATOR_MAC),
    },
    Leg { name: "far", mac: FAR_MAC, own: (FAR, FAR6), neighbour: (SINK, SINK6, SINK_MAC) },
];

/// Makes the host a router: two links without queues, their neighbours, and routes through the second
/// link.
pub(super) fn install(builder: &mut HostBuilder) -> Result<(), BenchError> {
    builder.network().settings.forwarding = true;
    for Leg { name, mac, own, neighbour: (v4, v6, neighbour) } in LEGS {
        let info = ReplayConfig::new(Vec::new()).info;
        let link = builder.queues_of(LinkInfo { name: name.into(), mac, ..info }, Vec::new());
        let addresses = [Prefix::new(own.0.into(), 24), Prefix::new(own.1.into(), 64)];
        let interface = InterfaceConfig::new(name, link);
        let interface = addresses.into_iter().flatten().fold(interface, InterfaceConfig::address);
        builder.interface(interface).map_err(BenchError::of("gateway"))?;
        builder.neighbour(v4.into(), MacAddr(neighbour));
        builder.neighbour(v6.into(), MacAddr(neighbour));
    }
    let v4 = routes4().map(|to| Route::via(to, SINK.into()));
    let v6 = routes6().map(|to| Route::via(to, SINK6.into()));
    let mut all = v4.chain(v6);
    all.try_for_each(|route| builder.route(&route)).map_err(BenchError::of("route"))
}

/// Frames for routes that are far from each other, the families in turns.
pub(super) fn frames() -> Result<Vec<Vec<u8>>, BenchError> {
    let (v4, v6): (Vec<Prefix>, Vec<Prefix>) = (routes4().collect(), routes6().collect());
    let at = |n: u32| (n * ROUTES / FRAMES) as usize;
    let pairs = (0..FRAMES).flat_map(|n| [host_in(v4[at(n)], n), host_in(v6[at(n)], n)]);
    pairs.map(frame).collect()
}

/// A datagram to a destination of either family.
pub(super) fn frame(to: IpAddr) -> Result<Vec<u8>, BenchError> {
    match to {
        IpAddr::V4(to) => {
            let ends = (MacAddr(GENERATOR_MAC), SOURCE, MacAddr(NEAR_MAC), to);
            udp_frame(ends, PORT, LENGTHS[0])
        }
        IpAddr::V6(to) => udp6_frame(to, LENGTHS[1] - 62),
    }
    .map_err(BenchError::of("frame"))
}

fn udp6_frame(dst: Ipv6Addr, payload: usize) -> Result<Vec<u8>, weever_wire::WireError> {
    let payload_len = payload as u16;
    let mut frame = vec![0x2a; 62 + payload];
    let (own, router) = (MacAddr(GENERATOR_MAC), MacAddr(NEAR_MAC));
    EthernetRepr { dst: router, src: own, ethertype: 0x86dd }.emit(&mut frame)?;
    let packet = Ipv6Repr {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 8 + payload_len,
        next_header: 17,
        hop_limit: 64,
        src: SOURCE6,
        dst,
    };
    packet.emit(&mut frame[14..])?;
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&SOURCE6.octets());
    addresses[16..].copy_from_slice(&dst.octets());
    let datagram = UdpRepr { src_port: 10_000, dst_port: PORT, payload_len };
    datagram.emit_with_checksum_v6(&mut frame[54..], &addresses)?;
    Ok(frame)
}

/// Networks of 16 to 28 bits in 10.128.0.0/9; longer ones lie in shorter ones.
fn routes4() -> impl Iterator<Item = Prefix> {
    distinct(|random| {
        let length = [16, 18, 20, 22, 24, 24, 24, 26, 28][random.usize(0..9)];
        let address = Ipv4Addr::from_bits(0x0a80_0000 | random.u32(..1 << 23));
        Prefix::new(address.into(), length)
    })
}

/// Networks of 40 to 64 bits in 2001:db8::/32, likewise.
fn routes6() -> impl Iterator<Item = Prefix> {
    distinct(|random| {
        let length = [40, 44, 48, 48, 48, 52, 56, 60, 64][random.usize(0..9)];
        let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(random.u32(..)) << 64);
        Prefix::new(address.into(), length)
    })
}

/// [`ROUTES`] networks, none of them twice.
fn distinct(
    mut draw: impl FnMut(&mut fastrand::Rng) -> Option<Prefix>,
) -> impl Iterator<Item = Prefix> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = std::collections::HashSet::new();
    std::iter::repeat_with(move || draw(&mut random))
        .flatten()
        .map(Prefix::network)
        .filter(move |prefix| seen.insert(*prefix))
        .take(ROUTES as usize)
}

/// A host in a network that has at least four bits for hosts.
fn host_in(prefix: Prefix, n: u32) -> IpAddr {
    let host = 1 + n % 14;
    match prefix.addr() {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits() | host).into(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits() | u128::from(host)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_routes_lie_in_shorter_ones_of_both_families() {
        for all in [routes4().collect::<Vec<_>>(), routes6().collect()] {
            assert_eq!(all.len(), ROUTES as usize);
            let inside = |one: &Prefix| {
                all.iter().any(|other| one.len() > other.len() && other.contains(one.addr()))
            };
            assert!(all.iter().filter(|one| inside(one)).count() > 50);
        }
    }

    #[test]
    fn frames_are_of_both_families_in_turns_and_each_has_its_destination() {
        let frames = frames().unwrap();
        assert_eq!(frames.len(), 2 * FRAMES as usize);
        for pair in frames.chunks(2) {
            assert_eq!([pair[0].len(), pair[1].len()], LENGTHS);
            assert_eq!((pair[0][14] >> 4, pair[1][14] >> 4), (4, 6));
        }
        let unlike: std::collections::HashSet<_> = frames.iter().collect();
        assert!(unlike.len() > frames.len() * 9 / 10, "{}", unlike.len());
    }
}
