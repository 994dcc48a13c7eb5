//! DHCP for IPv4 (RFC 2131 §2) and its options (RFC 2132).

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, be32, first, header, put, room};
use crate::{Layer, MacAddr, WireError};

mod options;
pub use options::{Collected, DhcpOption, Options, collect, option};

#[cfg(test)]
mod tests;

/// UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 68;

/// Bytes of the fixed part, magic cookie included.
pub const HEADER_LEN: usize = 240;
/// RFC 1542 §2.1: relays may drop messages that are shorter than BOOTP's.
pub const MIN_LEN: usize = 300;

const OP: usize = 0;
const XID: usize = 4;
const SECS: usize = 8;
const FLAGS: usize = 10;
const CIADDR: usize = 12;
const YIADDR: usize = 16;
const CHADDR: usize = 28;
const SNAME: usize = 44;
const FILE: usize = 108;
const COOKIE: usize = 236;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
const BROADCAST: u16 = 0x8000;

/// Message types (RFC 2132 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the RFC's names")]
pub enum MessageType {
    Discover = 1,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

impl MessageType {
    /// The type with this number.
    pub const fn new(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Discover,
            2 => Self::Offer,
            3 => Self::Request,
            4 => Self::Decline,
            5 => Self::Ack,
            6 => Self::Nak,
            7 => Self::Release,
            8 => Self::Inform,
            _ => return None,
        })
    }
}

header! {
    /// The fixed part of a message; no value in it has been checked.
    DhcpHeader, HEADER_LEN
}

impl DhcpHeader<'_> {
    /// Whether it comes from a server.
    pub fn is_reply(self) -> bool {
        self.0[OP] == 2
    }

    /// Transaction identifier.
    pub fn xid(self) -> u32 {
        be32(self.0, XID)
    }

    /// Seconds since the client began.
    pub fn secs(self) -> u16 {
        be16(self.0, SECS)
    }

    /// Whether the client wants the answer to be broadcast.
    pub fn wants_broadcast(self) -> bool {
        be16(self.0, FLAGS) & BROADCAST != 0
    }

    /// The client's address, if it has one.
    pub fn client_ip(self) -> Ipv4Addr {
        Ipv4Addr::from_octets(array(self.0, CIADDR))
    }

    /// The address that is given to the client.
    pub fn your_ip(self) -> Ipv4Addr {
        Ipv4Addr::from_octets(array(self.0, YIADDR))
    }

    /// The client's link address.
    pub fn mac(self) -> MacAddr {
        MacAddr(array(self.0, CHADDR))
    }

    /// Ethernet with the DHCP cookie.
    fn is_dhcp(self) -> bool {
        self.0[1..3] == [1, 6] && self.0[COOKIE..] == MAGIC
    }
}

/// A message of DHCP over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpView<'a> {
    header: DhcpHeader<'a>,
    options: &'a [u8],
}

impl<'a> DhcpView<'a> {
    /// Checks the fixed part: hardware type and magic cookie. The options are checked while they
    /// are read.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`].
    pub fn new(message: &'a [u8]) -> Result<Self, WireError> {
        let header = DhcpHeader(first(message, Layer::Dhcp4)?);
        if !header.is_dhcp() {
            let value = be32(header.0, COOKIE);
            return Err(WireError::BadField { layer: Layer::Dhcp4, field: "cookie", value });
        }
        Ok(Self { header, options: &message[HEADER_LEN..] })
    }

    /// The fixed part.
    pub fn header(self) -> DhcpHeader<'a> {
        self.header
    }

    /// The options, those in the fields for file and server name included if "overload" says so
    /// (RFC 2131 §4.1).
    pub fn options(self) -> Options<'a> {
        let file: &[u8] = &self.header.0[FILE..COOKIE];
        let sname: &[u8] = &self.header.0[SNAME..FILE];
        Options::new(self.options, file, sname)
    }

    /// The type of the message; `None` if it is missing or unknown.
    pub fn message_type(self) -> Option<MessageType> {
        let found = self.options().find(|o| o.code == option::MESSAGE_TYPE)?;
        match found.data {
            [number] => MessageType::new(*number),
            _ => None,
        }
    }
}

/// A message of a client, or the fixed part of a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpRepr<'a> {
    /// Its type.
    pub kind: MessageType,
    /// Transaction identifier.
    pub xid: u32,
    /// Seconds since the client began.
    pub secs: u16,
    /// Whether the answer is to be broadcast.
    pub broadcast: bool,
    /// The client's address, if it has one.
    pub client_ip: Ipv4Addr,
    /// The address given, in a server's message.
    pub your_ip: Ipv4Addr,
    /// The client's link address.
    pub mac: MacAddr,
    /// Options beside the type, in order.
    pub options: &'a [DhcpOption<'a>],
}

impl DhcpRepr<'_> {
    /// Bytes that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let options: usize = self.options.iter().map(|o| o.data.len() + 2).sum();
        (HEADER_LEN + 3 + options + 1).max(MIN_LEN)
    }

    /// Writes the message to the front of `buf`. Options of more than 255 bytes are cut off.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (need, have) = (self.buffer_len(), buf.len());
        let no_room = WireError::NoRoom { layer: Layer::Dhcp4, need, have };
        let message = buf.get_mut(..need).ok_or(no_room)?;
        message.fill(0);
        let (fixed, mut rest) = room::<HEADER_LEN>(message, Layer::Dhcp4)?;
        self.emit_fixed(fixed);
        let kind = [self.kind as u8];
        let kind = DhcpOption { code: option::MESSAGE_TYPE, data: &kind };
        for option in core::iter::once(&kind).chain(self.options) {
            let len = option.data.len().min(255);
            let (place, behind) = rest.split_at_mut(len + 2);
            place[0] = option.code;
            place[1] = len as u8;
            place[2..].copy_from_slice(&option.data[..len]);
            rest = behind;
        }
        rest[0] = option::END;
        Ok(())
    }

    fn emit_fixed(&self, fixed: &mut [u8; HEADER_LEN]) {
        use MessageType::{Ack, Nak, Offer};
        let reply = matches!(self.kind, Offer | Ack | Nak);
        put(fixed, OP, [1 + u8::from(reply), 1, 6, 0]);
        put(fixed, XID, self.xid.to_be_bytes());
        put(fixed, SECS, self.secs.to_be_bytes());
        put(fixed, FLAGS, if self.broadcast { BROADCAST } else { 0 }.to_be_bytes());
        put(fixed, CIADDR, self.client_ip.octets());
        put(fixed, YIADDR, self.your_ip.octets());
        put(fixed, CHADDR, self.mac.0);
        put(fixed, COOKIE, MAGIC);
    }
}
