//! IPv6 for a host and a router (RFC 8200): each validation step is a function of its own, as each
//! is a node of the graph; [`receive`] is their conjunction in the right order.

pub use weever_wire::ipv6::{Chain, ChainFault, HEADER_LEN, Ipv6Header, Ipv6Repr, Ipv6View};

pub mod addr;
mod locals;
mod receive;
mod select;
mod settings;
mod transmit;

pub use locals::{AddrOrigin, AddrState, Locals6, OwnAddr};
pub use receive::{
    Discard, Martian6, Taken, check_source, has_fixed_header, may_forward, may_hide_source,
    payload_len_ok, receive, version_ok,
};
pub use select::best_source;
pub use settings::V6Settings;
pub use transmit::{DEFAULT_HOP_LIMIT, MIN_MTU, emit_datagram, template};
