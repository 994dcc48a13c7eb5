//! What a block is: the trait, its context, its registration.
#![forbid(unsafe_code)]
