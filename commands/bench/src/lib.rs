//! `weever bench`: weever and its peers in the same run, alternating.
//!
//! The machine that a benchmark runs on drifts, so an absolute figure says little and a ratio of
//! two runs minutes apart says less. Every part therefore runs in *rounds*; in each round every
//! contender runs once, and a ratio is the median of the rounds' ratios ([`Samples::ratio`]). A
//! [`Report`] carries both, with their spread.
#![forbid(unsafe_code)]

mod app;
mod assemble;
mod client;
mod clock;
mod command;
mod contender;
mod corec;
mod crossing;
mod echo;
mod error;
mod forward;
mod forward_in_memory;
mod frame;
mod in_memory;
mod instructions;
mod isolation;
mod live;
mod modes;
mod overload;
mod peers;
mod plan;
mod plot;
mod quantile;
mod receive;
mod report;
mod rig;
mod samples;
mod search;
mod sizes;
mod steer_xdp;
mod thread_use;
mod traffic;

pub use command::{BenchArgs, run};
pub use error::BenchError;
pub use report::{Report, Row};
pub use samples::{Samples, Summary};
