//! ICMP for a host (RFC 792, RFC 1122 §3.2.2): answering echoes, reporting errors, and how often.

pub use weever_wire::icmpv4::{IcmpHeader, IcmpRepr, IcmpView, kind, unreachable};

mod echo;
mod error;
mod limit;

pub use echo::{EchoReject, check_echo, reply_in_place};
pub use error::{Cause, MAX_ERROR_LEN, Silence, emit_error, error_len, may_report};
pub use limit::{ErrorLimits, RateLimit};
