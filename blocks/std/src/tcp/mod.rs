#![doc = include_str!("README.md")]

mod endpoint;
mod rx;
mod send;
mod session;
mod streams;

pub use endpoint::ENDPOINT;
pub use rx::{DELIVER, ERROR, VALID_CHECKSUM, VALID_HEADER_LENGTH};
