//! A netlink socket: one request and all of its answers; and the requests for addresses, routes, neighbours and
//! rates.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr};

use crate::Mac;

/// Attributes of a token bucket (`linux/pkt_sched.h`).
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Of `struct tc_tbf_qopt`: two `tc_ratespec` of 12 octets, then limit, buffer and mtu.
const QOPT_LEN: usize = 36;

/// What waits in front of a link that has a rate at most, in octets. A TCP of the kernel keeps less there by itself.
const LIMIT: u32 = 16 << 20;

/// Belongs for ever to the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket of that protocol in the calling thread's namespace.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and returns the messages that came before the kernel's acknowledgement.
    pub(crate) fn request<M>(&mut self, request: M, flags: u16) -> io::Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.sequence += 1;
        self.send(request, flags | NLM_F_REQUEST | NLM_F_ACK)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if self.read_datagram(&datagram, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    fn send<M: NetlinkSerializable>(&self, request: M, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// True when the datagram held the end of the answer.
    fn read_datagram<M: NetlinkDeserializable>(
        &self,
        mut rest: &[u8],
        answers: &mut Vec<M>,
    ) -> io::Result<bool> {
        while !rest.is_empty() {
            let message = NetlinkMessage::<M>::deserialize(rest)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
            rest = rest.get(aligned(message.header.length)..).unwrap_or_default();
            // Left over from a request that failed half-way: not an answer to this one.
            if message.header.sequence_number != self.sequence {
                continue;
            }
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(e) if e.code.is_none() => return Ok(true),
                NetlinkPayload::Error(e) => return Err(e.to_io()),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// Messages in a datagram start at multiples of four bytes (NLMSG_ALIGN). At least one byte is
/// consumed, so that a length of zero cannot hold the reader up.
fn aligned(length: u32) -> usize {
    (length.max(1) as usize).next_multiple_of(4)
}

pub(crate) fn address(index: u32, address: Ipv4Addr, prefix: u8) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    let ip = IpAddr::V4(address);
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    RouteNetlinkMessage::NewAddress(message)
}

pub(crate) fn address6(
    index: u32,
    address: Ipv6Addr,
    prefix: u8,
    asked: bool,
) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    let ip = IpAddr::V6(address);
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    if !asked {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    RouteNetlinkMessage::NewAddress(message)
}

pub(crate) fn route(network: IpAddr, prefix: u8, gateway: IpAddr) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family =
        if network.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = prefix;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Destination(route_address(network)),
        RouteAttribute::Gateway(route_address(gateway)),
    ];
    RouteNetlinkMessage::NewRoute(message)
}

fn route_address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}

pub(crate) fn neighbour(index: u32, address: IpAddr, mac: Mac) -> RouteNetlinkMessage {
    let (family, address) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(address),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    RouteNetlinkMessage::NewNeighbour(message)
}

/// A token bucket in front of a link, as `tc qdisc … tbf` makes it (`net/sched/sch_tbf.c`): packets leave at so many octets
/// a second, a millisecond's worth of them at once.
pub(crate) fn rate(index: u32, octets_per_second: u32) -> RouteNetlinkMessage {
    // Room for a packet at any rate.
    let burst = (octets_per_second / 1000).max(16 << 10);
    let options = vec![
        TcOption::Other(DefaultNla::new(TCA_TBF_PARMS, qopt(octets_per_second).into())),
        TcOption::Other(DefaultNla::new(TCA_TBF_BURST, burst.to_ne_bytes().into())),
    ];
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![TcAttribute::Kind("tbf".into()), TcAttribute::Options(options)];
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

/// `struct tc_tbf_qopt`: the rate, no rate for peaks, and the limit; the burst has an attribute of its own.
fn qopt(octets_per_second: u32) -> [u8; QOPT_LEN] {
    let mut qopt = [0; QOPT_LEN];
    qopt[1] = TC_LINKLAYER_ETHERNET;
    qopt[8..12].copy_from_slice(&octets_per_second.to_ne_bytes());
    qopt[24..28].copy_from_slice(&LIMIT.to_ne_bytes());
    qopt
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NLM_F_DUMP;
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::LinkMessage;
    use netlink_sys::protocols::NETLINK_ROUTE;

    use super::*;

    #[test]
    fn a_dump_has_several_answers_and_an_end() {
        let mut netlink = Netlink::open(NETLINK_ROUTE).unwrap();
        for _ in 0..2 {
            let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
            let answers = netlink.request(ask, NLM_F_DUMP).unwrap();
            assert!(answers.iter().any(|a| matches!(a, RouteNetlinkMessage::NewLink(_))));
        }
    }

    #[test]
    fn a_refusal_carries_the_kernels_error_number() {
        let mut netlink = Netlink::open(NETLINK_ROUTE).unwrap();
        let mut nobody = LinkMessage::default();
        nobody.header.index = i32::MAX as u32;
        let refused = netlink.request(RouteNetlinkMessage::GetLink(nobody), 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::ENODEV));
    }
}
