#![doc = include_str!("README.md")]

mod groups;
mod receive;
mod timer;

pub use groups::{Groups, Groups6, GroupsOf, Listening};
pub use receive::RECEIVE;
pub use timer::TIMER;
