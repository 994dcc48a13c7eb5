//! Ethernet, ARP, IP of both versions, ICMP and UDP, sans-IO: bytes and `now` in, bytes, decisions
//! and deadlines out. No clock, no link, no thread, and no graph: `blocks/std` wraps this crate in
//! nodes.
//!
//! - [`addr`]: prefixes and the set of our own addresses;
//! - [`state`]: a host's network configuration and lookups, with [`iface`], [`route`] and [`fib`];
//! - [`neighbour`]: a cache of neighbours, and the shape of the protocol around it, of either family;
//! - [`arp`]: that of IPv4, a state machine;
//! - [`ipv4`]: each validation step as a function of its own, options, building headers;
//! - [`ipv6`]: the same for IPv6, and choosing a source address;
//! - [`icmp`], [`icmp6`]: when an error may be sent, which received ones are believed;
//! - [`limit`]: rate limits;
//! - [`ndp`]: neighbour discovery and address autoconfiguration, a state machine;
//! - [`demux`]: the socket of a packet, and the rules of binding;
//! - [`stream`]: the seam between streams of applications and their transport;
//! - [`udp`]: validation, checksums absent, partial or computed, building datagrams.
//!
//! Time is a number of nanoseconds since an instant that the caller chose; it must not go back.
//! Nothing that is called per packet allocates.
//!
//! # Deliberate exceptions from the RFCs
//! - Source-routed datagrams are refused, although RFC 1122 §3.2.1.8(c) wants a host to be able to
//!   receive them: RFC 7126 §4.3 and §4.4 recommend the opposite, for security.
//! - An echo reply returns a record-route or timestamp option without adding us to it, which RFC
//!   1122 §3.2.2.6 says SHOULD be done: no program relies on it.
//! - Any ARP packet that is accepted refreshes its sender's entry, as RFC 1122 §2.3.2.1 suggests,
//!   where RFC 4861 would only count an answer to our own question.
//!
//! # Not supported
//! Proxy ARP, policy routing, several ways to one prefix, jumbograms, sending router advertisements,
//! temporary IPv6 addresses, secure neighbour discovery.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod addr;
pub mod arp;
pub mod demux;
pub mod dhcp4;
pub mod fib;
pub mod fragment;
pub mod group;
pub mod icmp;
pub mod icmp6;
pub mod iface;
pub mod ipv4;
pub mod ipv6;
pub mod limit;
pub mod ndp;
pub mod neighbour;
pub mod pmtu;
pub mod random;
pub mod redirect;
pub mod route;
pub mod state;
pub mod stream;
pub mod udp;

/// Nanoseconds in a millisecond.
pub const MILLIS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000 * MILLIS;
