//! An eBPF assembler and the bpf(2) layer.
#![forbid(unsafe_code)]
