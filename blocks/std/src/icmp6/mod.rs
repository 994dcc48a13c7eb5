#![doc = include_str!("README.md")]

mod echo;
mod error;
mod report;
mod rx;
mod tx;

pub use echo::NEEDS_RESPONSE;
pub use error::ERROR;
pub use report::Icmp6Limits;
pub(crate) use report::{LIMITS, Verdict};
pub use rx::{CLASSIFY, VALID_CHECKSUM, VALID_HEADER_LENGTH};
pub use tx::{ALLOCATE_HEADER, FILL_ERROR, FILL_HEADER, INITIATE_ERROR, INITIATE_RESPONSE};
