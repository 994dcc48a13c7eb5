#![doc = include_str!("README.md")]

mod forward;
mod rx;
#[cfg(test)]
mod tests;
pub(crate) mod tx;

pub use forward::FORWARD;
pub use rx::DESTINATION;
pub(crate) use rx::{FORWARD as TO_FORWARD, LOCAL as TO_LOCAL, destination};
pub(crate) use rx::{SOURCE_OK, source};
pub use rx::{
    VALID_CHECKSUM, VALID_HEADER_LENGTH, VALID_LENGTH, VALID_OPTIONS, VALID_SOURCE, VALID_TTL,
};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, ROUTING};
pub(crate) use tx::{V4, fill, is_routed};
