//! Programs as Debian ships them, on a stack in another process: `weever run`, with clients of the kernel's.

mod run {
    mod clients;
    mod command;
    mod conformance;
    mod exclusive;
    mod fortified;
    mod inside;
    mod kills;
    mod lab;
    mod passing;
    mod policy;
    mod ports;
    mod programs;
    mod quic;
    mod returning;
    mod runtimes;
    mod servers;
    mod services;
    mod shortage;
    mod starting;
    mod trouble;
    mod undelivered;
    mod waiting;
    mod workers;
}

#[path = "up/stack.rs"]
#[allow(dead_code, reason = "tests of `weever up` use the rest")]
mod stack;
