//! `weever demo`: the stack against a real peer.
#![forbid(unsafe_code)]

mod error;
mod exercises;
mod frames;
mod icmp;
mod layers;
mod outcome;
mod pattern;
mod peer;
mod smoltcp_peer;
