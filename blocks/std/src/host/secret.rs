//! The root key of a host.

use std::ops::Deref;

use weever_net::random;

/// The root key of everything that others must not be able to predict: identifications, transaction
/// numbers, ports, hash tables. Blocks find it in their [`Env`](weever_block::Env) and take a subkey
/// for each use: see [`random::Secret`]. By default it is 128 bits of the kernel's randomness; a
/// simulation provides one from a seed before, and repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(random::Secret);

impl Secret {
    /// A root key that a seed determines, for simulations and tests only.
    pub fn from_seed(seed: u64) -> Secret {
        Secret(random::Secret::from_seed(seed))
    }
}

impl Default for Secret {
    /// Panics if the kernel refuses randomness, which it does only before Linux 3.17: no host may run
    /// with keys that can be guessed.
    fn default() -> Secret {
        let word =
            || getrandom::u64().expect("the kernel gives random bytes (getrandom, Linux 3.17)");
        Secret(random::Secret::new([word(), word()]))
    }
}

impl Deref for Secret {
    type Target = random::Secret;

    fn deref(&self) -> &random::Secret {
        &self.0
    }
}
