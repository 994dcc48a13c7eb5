#![doc = include_str!("README.md")]

mod clients;
mod receive;
mod timer;

pub use clients::{Dhcp, Status};
pub use receive::{RECEIVE, WATCH};
pub use timer::TIMER;
