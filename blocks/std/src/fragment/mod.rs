#![doc = include_str!("README.md")]

mod rx;
mod tx;

pub use rx::{FRAGMENT_V4, REASSEMBLE_V4, REASSEMBLE_V6};
pub use tx::PATH_MTU_V4;
pub use tx::{FRAGMENT_OUT_V4, FRAGMENT_OUT_V6};
