//! Flow types: the kinds of rules that NICs and `ethtool` distinguish.

use crate::Field;

/// A kind of packets. A rule of a table that has flow types is of exactly one of them, and matches
/// only such packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowType {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// SCTP over IPv4.
    Sctp4,
    /// IPv4.
    Ip4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
    /// SCTP over IPv6.
    Sctp6,
    /// IPv6.
    Ip6,
    /// Any Ethernet frame.
    Ether,
}

const ETH_IP4: u128 = 0x0800;
const ETH_IP6: u128 = 0x86dd;

impl FlowType {
    /// Every flow type, the more specific of two that overlap first.
    pub const ALL: [FlowType; 9] = [
        FlowType::Tcp4,
        FlowType::Udp4,
        FlowType::Sctp4,
        FlowType::Tcp6,
        FlowType::Udp6,
        FlowType::Sctp6,
        FlowType::Ip4,
        FlowType::Ip6,
        FlowType::Ether,
    ];

    /// Its name, as in `ethtool`.
    pub fn name(self) -> &'static str {
        match self {
            FlowType::Tcp4 => "tcp4",
            FlowType::Udp4 => "udp4",
            FlowType::Sctp4 => "sctp4",
            FlowType::Ip4 => "ip4",
            FlowType::Tcp6 => "tcp6",
            FlowType::Udp6 => "udp6",
            FlowType::Sctp6 => "sctp6",
            FlowType::Ip6 => "ip6",
            FlowType::Ether => "ether",
        }
    }

    /// The flow type that `name` means.
    pub fn from_name(name: &str) -> Option<FlowType> {
        FlowType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The IP version, if it is a type of IP packets.
    pub fn ip_version(self) -> Option<u8> {
        match self {
            FlowType::Tcp4 | FlowType::Udp4 | FlowType::Sctp4 | FlowType::Ip4 => Some(4),
            FlowType::Tcp6 | FlowType::Udp6 | FlowType::Sctp6 | FlowType::Ip6 => Some(6),
            FlowType::Ether => None,
        }
    }

    /// The number of the transport protocol, if it is a type of one.
    pub fn protocol(self) -> Option<u8> {
        match self {
            FlowType::Tcp4 | FlowType::Tcp6 => Some(6),
            FlowType::Udp4 | FlowType::Udp6 => Some(17),
            FlowType::Sctp4 | FlowType::Sctp6 => Some(132),
            FlowType::Ip4 | FlowType::Ip6 | FlowType::Ether => None,
        }
    }

    /// The fields and values that every packet of the type has.
    pub fn implies(self) -> impl Iterator<Item = (Field, u128)> {
        let (ether_type, next) = match self.ip_version() {
            Some(4) => (Some(ETH_IP4), Field::Ip4Proto),
            Some(_) => (Some(ETH_IP6), Field::Ip6Next),
            None => (None, Field::Ip4Proto),
        };
        let version = ether_type.map(|v| (Field::EthType, v));
        let protocol = self.protocol().map(|p| (next, u128::from(p)));
        version.into_iter().chain(protocol)
    }

    /// Whether packets of the type can have `field` without the type deciding its value.
    pub fn leaves_open(self, field: Field) -> bool {
        if self.implies().any(|(f, _)| f == field) {
            return false;
        }
        let (version, protocol) = (self.ip_version(), self.protocol());
        match field {
            Field::EthDst | Field::EthSrc | Field::VlanId | Field::FrameLen => true,
            Field::EthType | Field::ArpOp | Field::ArpTpa => version.is_none(),
            Field::Ip4Src | Field::Ip4Dst | Field::Ip4Proto | Field::Ip4Ttl | Field::Ip4Frag => {
                version == Some(4)
            }
            Field::Ip6Src | Field::Ip6Dst | Field::Ip6Next => version == Some(6),
            Field::L4Src | Field::L4Dst => version.is_some(),
            Field::TcpFlags => version.is_some() && matches!(protocol, None | Some(6)),
            Field::IpVersion => false,
            _ => version.is_some() && protocol.is_none(),
        }
    }
}

impl std::fmt::Display for FlowType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
