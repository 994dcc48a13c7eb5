//! Lock-free rings, generic over the atomics.
#![forbid(unsafe_code)]
