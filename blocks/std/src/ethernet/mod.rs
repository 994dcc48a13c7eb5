#![doc = include_str!("README.md")]

mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use rx::{
    CLASSIFIED, CLASSIFY_L3, VALID_BROADCAST, VALID_LENGTH, VALID_LOCAL_MAC, VALID_MULTICAST,
    VALID_SRC, VALID_TYPE, VALID_UNICAST, VALID_VLAN,
};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, SEND};
