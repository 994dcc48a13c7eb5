#![doc = include_str!("README.md")]

mod forward;
mod rx;
#[cfg(test)]
mod tests;
pub(crate) mod tx;

pub use forward::FORWARD;
pub use rx::DESTINATION;
pub use rx::{
    CLASSIFY, VALID_CHECKSUM, VALID_HEADER_LENGTH, VALID_LENGTH, VALID_OPTIONS, VALID_REASSEMBLY,
    VALID_SOURCE, VALID_TTL, VALID_VERSION,
};
pub(crate) use rx::{FORWARD as TO_FORWARD, LOCAL as TO_LOCAL, destination};
pub(crate) use rx::{SOURCE_OK, source};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, ROUTING};
pub(crate) use tx::{V4, fill, is_routed};
