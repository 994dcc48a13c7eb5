#![doc = include_str!("README.md")]

mod echo;
mod report;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use echo::NEEDS_RESPONSE;
pub use report::{CLOSED_PORT_ACTION, IcmpLimits};
pub use rx::{IS_TYPE_REQUEST, VALID_CHECKSUM, VALID_HEADER_LENGTH};
pub use tx::{
    ALLOCATE_HEADER, FILL_HEADER, FILL_UNREACHABLE, INITIATE_RESPONSE, INITIATE_UNREACHABLE,
};
