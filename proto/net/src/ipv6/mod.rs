//! IPv6 for a host and a router (RFC 8200): the tests that a received packet has to
//! pass, our addresses, choosing a source, and headers of what we send.

pub use weever_wire::ipv6::{Chain, ChainFault, HEADER_LEN, Ipv6Header, Ipv6Repr, Ipv6View};

pub mod addr;
mod locals;
mod own;
mod receive;
mod select;
mod settings;
mod transmit;

pub use locals::Locals6;
pub use own::{AddrOrigin, AddrState, OwnAddr};
pub use receive::{
    Martian6, check_source, may_forward, may_hide_source, payload_len_ok, version_ok,
};
pub use select::best_source;
pub use settings::V6Settings;
pub use transmit::{DEFAULT_HOP_LIMIT, MIN_MTU, template};
