//! ICMP for a host (RFC 792, RFC 1122 §3.2.2): sending errors, their rate limits, and judging the
//! errors of others.

pub use weever_wire::icmpv4::{IcmpHeader, IcmpRepr, IcmpView, kind, unreachable};

mod cause;
mod error;
mod received;

pub use cause::{Cause, budget};
pub use error::{INTERNETWORK_CONTROL, MAX_ERROR_LEN, Silence, may_report, quote_len};
pub use received::{ErrorReject, ReceivedError, check_error};
