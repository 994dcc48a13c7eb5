#![doc = include_str!("README.md")]

mod echo;
mod report;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use echo::NEEDS_RESPONSE;
pub(crate) use echo::{EchoLimit, rate};
pub(crate) use report::LIMITS;
pub use report::{IcmpLimits, REPORT};
pub use rx::{CLASSIFY, ERROR, VALID_CHECKSUM, VALID_HEADER_LENGTH};
pub use tx::{ALLOCATE_HEADER, FILL_ERROR, FILL_HEADER, INITIATE_ERROR, INITIATE_RESPONSE};
