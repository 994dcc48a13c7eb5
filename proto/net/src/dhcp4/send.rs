//! Messages of a client.

use core::net::Ipv4Addr;

use weever_wire::dhcp4::{DhcpOption, DhcpRepr, MessageType, option};
use weever_wire::{MacAddr, WireError};

/// RFC 3442: a client that wants classless routes asks for them before routers.
const WANTED: [u8; 8] = [
    option::SUBNET_MASK,
    option::CLASSLESS_ROUTES,
    option::ROUTER,
    option::DNS,
    option::MTU,
    option::LEASE_TIME,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
];
/// Bytes of the longest message that we take: an Ethernet frame's.
const MAX_MESSAGE: u16 = 1472;

/// A message to a server, or to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its type.
    pub kind: MessageType,
    /// From our address, or from 0.0.0.0.
    pub src: Ipv4Addr,
    /// To the server, or to 255.255.255.255.
    pub dst: Ipv4Addr,
    pub(super) xid: u32,
    pub(super) secs: u16,
    pub(super) mac: MacAddr,
    /// The address that is asked for or declined.
    pub(super) requested: Option<Ipv4Addr>,
    pub(super) server: Option<Ipv4Addr>,
}

impl Transmit {
    /// Writes the UDP payload to the front of `buf`; its length. 300 bytes are enough.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let mut id = [1; 7];
        id[1..].copy_from_slice(&self.mac.0);
        let max = MAX_MESSAGE.to_be_bytes();
        let requested = self.requested.map(Ipv4Addr::to_bits).unwrap_or(0).to_be_bytes();
        let server = self.server.map(Ipv4Addr::to_bits).unwrap_or(0).to_be_bytes();
        let asks = matches!(self.kind, MessageType::Discover | MessageType::Request);
        let all = [
            (true, option::CLIENT_ID, &id[..]),
            (self.requested.is_some(), option::REQUESTED_IP, &requested),
            (self.server.is_some(), option::SERVER_ID, &server),
            (asks, option::MAX_MESSAGE, &max),
            (asks, option::PARAMETER_REQUEST, &WANTED),
        ];
        let mut options = [DhcpOption { code: option::PAD, data: &[] }; 5];
        let mut count = 0;
        for (_, code, data) in all.into_iter().filter(|(wanted, ..)| *wanted) {
            options[count] = DhcpOption { code, data };
            count += 1;
        }
        let repr = DhcpRepr {
            kind: self.kind,
            xid: self.xid,
            secs: self.secs,
            broadcast: self.src.is_unspecified() && asks,
            client_ip: if self.kind == MessageType::Decline {
                Ipv4Addr::UNSPECIFIED
            } else {
                self.src
            },
            your_ip: Ipv4Addr::UNSPECIFIED,
            mac: self.mac,
            options: &options[..count],
        };
        repr.emit(buf)?;
        Ok(repr.buffer_len())
    }
}
