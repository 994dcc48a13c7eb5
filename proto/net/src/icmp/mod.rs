//! ICMP for a host (RFC 792, RFC 1122 §3.2.2): answering echoes, reporting errors, how often, and
//! which reports by others to believe.

pub use weever_wire::icmpv4::{IcmpHeader, IcmpRepr, IcmpView, kind, unreachable};

mod cause;
mod echo;
mod error;
mod limit;
mod received;

pub use cause::Cause;
pub use echo::{EchoReject, check_echo, reply_in_place};
pub(crate) use error::quote;
pub use error::{MAX_ERROR_LEN, Silence, emit_error, error_len, may_report};
pub use limit::{ErrorLimits, RateLimit};
pub use received::{Received, Stray, check_error};
