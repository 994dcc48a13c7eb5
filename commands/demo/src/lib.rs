//! `weever demo`: the stack against a real peer.
//!
//! A *stage* is a running stack with a peer at the other end of its link: the Linux kernel over
//! AF_XDP on a veth pair, or, without privileges, smoltcp over a memory link. The *exercises* are
//! the same for both; what they find is an [`Outcome`], printed as a table or as JSON. *Scenes*
//! with a network of their own follow where the kernel can be had: weever as a router, and on
//! several workers.
#![forbid(unsafe_code)]

mod command;
mod error;
mod exercises;
mod frames;
mod icmp;
mod in_memory;
mod kernel;
mod layers;
mod on_kernel;
mod outcome;
mod pattern;
mod peer;
mod scenes;
mod smoltcp_peer;
mod stage;
mod talk;

pub use command::{DemoArgs, run};
pub use error::DemoError;
pub use outcome::{Check, LayerCount, Outcome};
