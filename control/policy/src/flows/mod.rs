//! Files of flows: one per line, or JSON.
//!
//! A line is a pcap-filter expression or a five-tuple, then settings, then a comment:
//! ```text
//! udp 10.0.0.1:1234 -> 10.0.0.2:11211  rate=12k class=hp   # one client
//! tcp [2001:db8::1]:* -> *:443         app=web weight=2
//! udp dst port 53 and src net 10.0.0.0/8
//! ```
//! JSON is a list of objects (or an object whose `flows` is one) with the same settings, and `match`
//! for the expression. Entries that cannot be read are reported by their lines; the rest is kept.

mod json;
mod list;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod tuple;

pub use list::{FlowList, FlowSpec, MAX_FLOWS};

/// Reads a file of flows. The first character distinguishes JSON from lines.
pub fn parse(bytes: &[u8]) -> FlowList {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    match first {
        Some(b'[' | b'{') => json::parse(bytes),
        _ => text::parse(bytes),
    }
}
