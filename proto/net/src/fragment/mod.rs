//! Fragments of both families: put together again on arrival, made on the way out.
//!
//! ```text
//! packet ──► Piece::v4 / Piece::v6 ──► Reassembler::offer ──► Whole(room, length)
//!                │ Reject                  │ Kept, Reject         a datagram without a trace
//!                                          │                      of its having been in pieces
//!                              poll ──► Expired { quote }
//!
//! datagram ──► split_v4 / split_v6 ──► Split::next(out) … one fragment each
//! ```
//!
//! [`Reassembler`] is bounded in every direction: datagrams, bytes, datagrams of one source, time.
//! Its memory is allocated once; the bytes themselves lie in *rooms* that the caller supplies (a
//! frame of a pool), so that each byte is copied once. It has these kinds of methods:
//! - *per fragment*: [`Reassembler::offer`];
//! - *time*: [`Reassembler::poll`] once [`Reassembler::poll_at`] has come;
//! - *moving*: [`Reassembler::take`] here and [`Reassembler::put`] at another one.
//!
//! # Choices
//! - A datagram whose fragments overlap is given up whole, with those still to come (RFC 5722; for
//!   IPv4 too, where RFC 791 leaves it open). An exact duplicate, bytes included, is passed over.
//! - A fragment that is a whole datagram by itself ("atomic", RFC 6946) never meets the others.
//! - Fragments that belong to nothing that can come to an end are refused at once: empty ones, those
//!   of a length that is no multiple of eight, those that reach beyond 65,535 bytes.
//! - When there is no room, the oldest datagram of the source that has the most goes: a flood pushes
//!   out itself. IPv6 sources are told apart by their first 64 bits.

mod ident;
mod map;
mod piece;
mod reassembly;
mod send;
mod table;

pub use ident::Idents;
pub use piece::{Key, Piece, Reject};
pub use reassembly::{Expired, Offer, Reassembler, ReassemblyConfig};
pub use send::{Split, SplitError, split_v4, split_v6};
pub use table::Part;

/// Bytes of the longest datagram that can be put together, IP header included, in both families.
pub const MAX_DATAGRAM: usize = 65_535;

/// Bytes of a fragment header of IPv6 (RFC 8200 §4.5).
pub const FRAGMENT_HEADER_LEN: usize = 8;

#[cfg(test)]
mod tests;
