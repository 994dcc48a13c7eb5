//! Links onto the kernel: AF_XDP, packet sockets.
#![forbid(unsafe_code)]
