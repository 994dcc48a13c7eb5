#![doc = include_str!("README.md")]

mod echo;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use echo::UDP_ECHO;
pub use rx::{VALID_CHECKSUM, VALID_HEADER_LENGTH, VALID_LENGTH};
pub(crate) use rx::{valid_length, verify};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, INITIATE_RESPONSE};
