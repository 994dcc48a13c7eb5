//! `weever demo`: the stack against a real peer.
//!
//! A *stage* is a running stack with a peer at the other end of its link: the Linux kernel over
//! AF_XDP on a veth pair, or, without privileges, smoltcp over a memory link. The *exercises* are
//! the same for both. *Scenes* with a network of their own follow where the kernel can be had:
//! weever as a router, and on several workers. All of it is made of *steps*, which are shown as
//! they run and make an [`Outcome`], printed as a summary or as JSON.
#![forbid(unsafe_code)]

mod command;
mod exercises;
mod kernel;
mod layers;
mod outcome;
mod payloads;
mod peer;
mod scenes;
mod smoltcp_peer;
mod stage;
mod steps;

pub use command::{DemoArgs, run};
pub use outcome::{Check, DemoError, LayerCount, Outcome, Verdict};
