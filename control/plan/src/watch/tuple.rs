//! Five-tuples.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_graph::Field;
use weever_graph::nic::FlowType;

use crate::flow::{Conj, Flow, Kinds};

/// A flow of a transport with ports: TCP (6), UDP (17) or SCTP (132).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple {
    /// The IP protocol.
    pub protocol: u8,
    /// The sender's address and port.
    pub src: SocketAddr,
    /// The receiver's address and port.
    pub dst: SocketAddr,
}

impl FiveTuple {
    /// The flow with this name and these packets; nothing if the protocol has no ports or the
    /// addresses are of two versions of IP.
    pub fn flow(&self) -> Option<Flow> {
        Some(Flow::of(self.to_string(), vec![self.packets()?]))
    }

    /// Its packets; nothing as for [`FiveTuple::flow`].
    pub fn packets(&self) -> Option<Conj> {
        let kind = Conj::of_kinds(Kinds::of(self.flow_type()?));
        let addresses = match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => kind
                .with(Field::Ip4Src, src.to_bits().into())
                .with(Field::Ip4Dst, dst.to_bits().into()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                kind.with(Field::Ip6Src, src.to_bits()).with(Field::Ip6Dst, dst.to_bits())
            }
            _ => return None,
        };
        let ports = addresses.with(Field::L4Src, self.src.port().into());
        Some(ports.with(Field::L4Dst, self.dst.port().into()))
    }

    /// The five-tuple that has all of these packets and no others of its transport, if there is one.
    pub fn of(packets: &Conj) -> Option<FiveTuple> {
        let single = |field| packets.single(field);
        let port = |field| single(field).and_then(|port| u16::try_from(port).ok());
        let protocol = |field| single(field).and_then(|number| u8::try_from(number).ok());
        let (protocol, src, dst): (u8, IpAddr, IpAddr) = match protocol(Field::Ip4Proto) {
            Some(protocol) => {
                let v4 = |field| Some(Ipv4Addr::from(u32::try_from(single(field)?).ok()?).into());
                (protocol, v4(Field::Ip4Src)?, v4(Field::Ip4Dst)?)
            }
            None => {
                let v6 = |field| Some(Ipv6Addr::from(single(field)?).into());
                (protocol(Field::Ip6Next)?, v6(Field::Ip6Src)?, v6(Field::Ip6Dst)?)
            }
        };
        let src = SocketAddr::new(src, port(Field::L4Src)?);
        let dst = SocketAddr::new(dst, port(Field::L4Dst)?);
        Some(FiveTuple { protocol, src, dst })
    }

    fn flow_type(&self) -> Option<FlowType> {
        let version = if self.src.is_ipv4() { 4 } else { 6 };
        let types = FlowType::ALL.into_iter();
        let mut of_version = types.filter(|t| t.ip_version() == Some(version));
        of_version.find(|t| t.protocol() == Some(self.protocol))
    }
}

impl fmt::Display for FiveTuple {
    /// Formats the tuple as a line of a file of flows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            6 => f.write_str("tcp ")?,
            17 => f.write_str("udp ")?,
            132 => f.write_str("sctp ")?,
            other => write!(f, "protocol {other} ")?,
        }
        write!(f, "{} -> {}", self.src, self.dst)
    }
}
