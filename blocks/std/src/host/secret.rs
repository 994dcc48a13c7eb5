//! What nobody outside may know.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// The seed of everything that must not be foretold: identifications, transaction numbers, hashes.
/// Blocks find it in their [`Env`](weever_block::Env). By default it comes from the system's
/// randomness; whoever provides another one before, such as a simulation, gets the same run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(pub u64);

impl Default for Secret {
    fn default() -> Secret {
        Secret(RandomState::new().build_hasher().finish())
    }
}
