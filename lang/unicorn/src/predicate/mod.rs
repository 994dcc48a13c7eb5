//! Predicates as text: Dragonet's form, pcap-filter's, and typed field comparisons.
//!
//! All three may be mixed: `and(pred(EthType,IPv4), udp dst port 53, ip4.ttl > 1)`.
//! - Dragonet: `pred(label,value)`, `and(…)`, `or(…)`, `not(…)`, `true`, `false`, bare labels,
//!   `!label`. Labels with a known meaning become typed.
//! - pcap-filter: `udp dst port 53`, `src net 10.0.0.0/8`, `ip[9] = 17`, …; `and` and `or` have
//!   the same precedence and associate to the left, as they do there.
//! - Fields: `ip4.src = 10.0.0.0/8`, `tcp.flags & 0x02 != 0`, `l4.dst in 1024-65535`, field with field
//!   as in `ip4.len <= l3.len`, and sets of the network's as in `ip4.dst in ours`.
//!
//! Where pcap-filter's `host` also looks into ARP, this one means IP only: write `arp host`.

mod bytes;
mod compare;
mod display;
mod fields;
mod labels;
mod parse;
mod pcap;
mod qualifier;
mod services;
#[cfg(test)]
mod tests;
mod token;

pub use display::PredicateText;
pub use fields::field_name;
pub use parse::parse;

/// Why a text is no predicate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PredicateError {
    /// Where in the text, in bytes.
    pub at: usize,
    /// The fault.
    pub message: String,
    /// The text to write instead, if it is known.
    pub help: Option<String>,
}
