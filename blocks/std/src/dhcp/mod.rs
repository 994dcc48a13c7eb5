#![doc = include_str!("README.md")]

mod apply;
mod clients;
mod receive;
mod timer;
mod watch;

pub use clients::{Dhcp, Status};
pub use receive::RECEIVE;
pub use timer::TIMER;
pub use watch::WATCH;
