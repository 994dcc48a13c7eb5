#![doc = include_str!("README.md")]

mod arrive;
mod endpoint;
mod options;
mod rx;
mod send;
mod session;
mod streams;
mod worker;

pub use endpoint::ENDPOINT;
pub(crate) use rx::is_sound;
pub use rx::{DELIVER, ERROR, VALID_CHECKSUM, VALID_HEADER_LENGTH, flow_of};
