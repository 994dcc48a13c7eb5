//! ICMPv6 for a host and a router (RFC 4443): sending errors, and judging the errors of
//! others.

pub use weever_wire::icmpv6::{Icmpv6Header, Icmpv6Repr, Icmpv6View, kind};

mod error;
mod received;

pub use error::{Cause, MAX_ERROR_LEN, Silence, budget, may_report, quote_len};
pub use received::{ErrorReject, ReceivedError, check_error};
