//! Buffers, pools, bursts and checksums.
#![forbid(unsafe_code)]
