//! Signals that end the stack.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::stack::Stopper;

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Blocks the signals that end the stack in this thread and those it starts; they are collected
/// by [`watch`].
pub(super) fn take_over() -> io::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    Ok(signals)
}

/// Has the first signal stop the stack, and a second one end the process at once: the kernel then
/// takes the device back.
pub(super) fn watch(signals: SigSet, stopper: Stopper) -> io::Result<()> {
    let watch = move || {
        if signals.wait().is_ok() {
            stopper.stop();
        }
        if signals.wait().is_ok() {
            std::process::exit(INTERRUPTED);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}
