//! ICMPv6 for a host and a router (RFC 4443): answering echoes, reporting errors, and what errors
//! that others report mean.

pub use weever_wire::icmpv6::{Icmpv6Header, Icmpv6Repr, Icmpv6View, kind};

mod echo;
mod error;
mod heard;

pub use echo::{EchoReject, check_echo, reply_in_place};
pub use error::{
    Cause, ErrorLimits, MAX_ERROR_LEN, Silence, emit_error, error_len, may_report, quote_len,
};
pub use heard::{Heard, HeardReject, hear};
