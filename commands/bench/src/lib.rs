//! `weever bench`: weever and its peers in the same run, alternating.
//!
//! The machine that a benchmark runs on drifts, so an absolute figure says little and a ratio of
//! two runs minutes apart says less. Every part therefore runs in *rounds*; in each round every
//! contender runs once, and a ratio is the median of the rounds' ratios ([`Samples::ratio`]). A
//! [`Report`] carries both, with their spread.
#![forbid(unsafe_code)]

mod app;
mod boxes;
mod claims;
mod client;
mod clients;
mod command;
mod contender;
mod corec;
mod counts;
mod crossing;
mod echo_clients;
mod forward;
mod frames;
mod in_memory;
mod instructions;
mod isolation;
mod latency;
mod live;
mod memcached;
mod modes;
mod outage;
mod overload;
mod peers;
mod plot;
mod programs;
mod report;
mod rig;
mod samples;
mod search;
mod sizes;
mod steer_xdp;
mod steward;
mod tap;
mod tcp;
mod traffic;
mod udp;

pub use command::{BenchArgs, run};
pub use report::{BenchError, Report, Row};
pub use samples::{Samples, Summary};
