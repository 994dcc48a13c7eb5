//! Views and builders of protocol headers: no I/O, no allocation, no `unsafe`.
//!
//! Every protocol has one file of the same shape; the parts that IPv4's and IPv6's share are in
//! [`icmp`] and [`listener`]:
//! - the field offsets;
//! - `XHeader`, a view over a fixed-size array of bytes: one length test when it is made, then
//!   accessors with constant offsets that need no bounds check. It promises nothing about the
//!   *content*, so a graph node can look at one field without validating the others;
//! - `XView`, a checked view: `XView::new(bytes)` fails unless every length inside the header is
//!   consistent with the bytes at hand, after which no accessor can panic or leave the slice;
//! - `XRepr`, the values of a header, with `buffer_len` and `emit`;
//! - setters over `&mut [u8; N]` for fields that the packet path rewrites in place.
//!
//! [`checksum`] holds the Internet checksum, [`stream`] the settings of a connection, [`fields`] the slow and obvious walk over a frame
//! that faster classifiers are tested against.
//!
//! Multi-byte values cross this interface in host order, addresses as [`MacAddr`] and
//! [`core::net::Ipv4Addr`] and [`core::net::Ipv6Addr`].
//!
//! # Not supported
//! IPsec headers, jumbograms, 802.2 LLC and SNAP, more than two VLAN tags, and ARP
//! for anything but IPv4 over Ethernet.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;

pub mod arp;
pub mod checksum;
pub mod dhcp4;
pub mod error;
pub mod ethernet;
pub mod fields;
pub mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod listener;
pub mod mac;
pub mod mld;
pub mod ndp;
pub mod numbers;
pub mod stream;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use error::{Layer, WireError};
pub use mac::MacAddr;
