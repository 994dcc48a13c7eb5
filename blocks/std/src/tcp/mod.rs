#![doc = include_str!("README.md")]

mod arrive;
mod endpoint;
mod options;
mod rx;
mod send;
mod session;
mod sessions;
mod streams;
mod worker;

pub use endpoint::ENDPOINT;
pub(crate) use rx::is_sound;
pub use rx::{DELIVER, ERROR, VALID_CHECKSUM, flow_of};
