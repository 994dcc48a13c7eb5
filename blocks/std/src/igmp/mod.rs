#![doc = include_str!("README.md")]

mod receive;
mod timer;

pub use crate::groups::{Groups, Groups6, GroupsOf, Listening};
pub use receive::RECEIVE;
pub use timer::TIMER;
