//! weever demo: the stack against a real peer.
#![forbid(unsafe_code)]
