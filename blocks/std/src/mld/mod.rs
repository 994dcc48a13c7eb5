#![doc = include_str!("README.md")]

mod receive;
mod timer;

pub use receive::RECEIVE;
pub use timer::TIMER;
