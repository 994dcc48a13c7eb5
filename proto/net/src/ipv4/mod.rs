//! IPv4 for a host (RFC 791, RFC 1122 §3.2.1): the tests that a received datagram has to pass,
//! forwarding, and headers of the datagrams we send.

pub use weever_wire::ipv4::{HEADER_LEN, Ipv4Header, Ipv4Repr, Ipv4View, protocol};

mod forward;
mod options;
mod receive;
mod transmit;

pub use forward::{Forward, complete_partial, forward, is_partial, options_may_pass};
pub use options::{OptionReject, check_options};
pub use receive::{header_len_ok, is_whole, may_forward, total_len_ok, version_ok};
pub use transmit::{DEFAULT_TTL, Ident, multicast_mac, template};
