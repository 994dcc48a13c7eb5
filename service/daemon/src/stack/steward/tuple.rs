//! Five-tuples that are flows, and flows that are five-tuples.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_graph::Field;
use weever_plan::flow::Conj;
use weever_plan::watch::FiveTuple;

/// The five-tuple that has all of these packets and no others of its transport, if there is one.
pub(super) fn of(packets: &Conj) -> Option<FiveTuple> {
    let port = |field| packets.single(field).and_then(|port| u16::try_from(port).ok());
    let protocol = |field| packets.single(field).and_then(|number| u8::try_from(number).ok());
    let (protocol, src, dst): (u8, IpAddr, IpAddr) = match protocol(Field::Ip4Proto) {
        Some(protocol) => {
            let v4 = |field| {
                let number = packets.single(field)?;
                Some(Ipv4Addr::from(u32::try_from(number).ok()?).into())
            };
            (protocol, v4(Field::Ip4Src)?, v4(Field::Ip4Dst)?)
        }
        None => {
            let v6 = |field| Some(Ipv6Addr::from(packets.single(field)?).into());
            (protocol(Field::Ip6Next)?, v6(Field::Ip6Src)?, v6(Field::Ip6Dst)?)
        }
    };
    let src = SocketAddr::new(src, port(Field::L4Src)?);
    let dst = SocketAddr::new(dst, port(Field::L4Dst)?);
    Some(FiveTuple { protocol, src, dst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_five_tuple_comes_back_from_its_packets_and_others_are_none() {
        for (src, dst) in [("10.0.0.1:5", "10.0.0.2:7"), ("[fd00::1]:5", "[fd00::2]:7")] {
            for protocol in [6, 17, 132] {
                let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
                let tuple = FiveTuple { protocol, src, dst };
                assert_eq!(of(&tuple.packets().unwrap()), Some(tuple));
            }
        }
        let wide = weever_policy::flows::parse(b"udp dst port 7").flows.remove(0);
        assert!(wide.parts.iter().all(|part| of(part).is_none()));
    }
}
