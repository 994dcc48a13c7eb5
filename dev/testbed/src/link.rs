//! Links: their state in the kernel, and the requests that change them.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Stats64};

use crate::Mac;

/// The kernel's state of a link at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkInfo {
    /// Name within its namespace.
    pub name: String,
    /// Interface index within its namespace.
    pub index: u32,
    /// Hardware address; zero for a link that has none.
    pub mac: Mac,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Up, and with a carrier.
    pub running: bool,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Traffic so far.
    pub counters: LinkCounters,
}

/// Traffic of a link since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames that arrived and found no room.
    pub rx_dropped: u64,
    /// Frames that could not be sent.
    pub tx_dropped: u64,
    /// Malformed frames received.
    pub rx_errors: u64,
    /// Frames lost in sending.
    pub tx_errors: u64,
}

impl From<&Stats64> for LinkCounters {
    fn from(stats: &Stats64) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
        }
    }
}

impl LinkInfo {
    pub(crate) fn from_message(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut info = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Running),
            ..Self::default()
        };
        message.attributes.iter().for_each(|attribute| info.read(attribute));
        info
    }

    fn read(&mut self, attribute: &LinkAttribute) {
        match attribute {
            LinkAttribute::IfName(name) => self.name.clone_from(name),
            LinkAttribute::Address(bytes) => self.mac = mac_of(bytes),
            LinkAttribute::Mtu(mtu) => self.mtu = *mtu,
            LinkAttribute::NumTxQueues(n) => self.tx_queues = *n,
            LinkAttribute::NumRxQueues(n) => self.rx_queues = *n,
            LinkAttribute::Stats64(stats) => self.counters = stats.into(),
            _ => {}
        }
    }
}

fn mac_of(bytes: &[u8]) -> Mac {
    bytes.try_into().unwrap_or_default()
}

/// Asks for the link of that name.
pub(crate) fn get(name: &str) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    RouteNetlinkMessage::GetLink(message)
}

/// Changes one attribute of the link with that index.
pub(crate) fn set(index: u32, attribute: LinkAttribute) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(attribute);
    RouteNetlinkMessage::SetLink(message)
}

/// Sets the link with that index up or down.
pub(crate) fn set_up(index: u32, up: bool) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.change_mask = LinkFlags::Up;
    message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    RouteNetlinkMessage::SetLink(message)
}

/// Removes the link with that index.
pub(crate) fn delete(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    RouteNetlinkMessage::DelLink(message)
}
