//! Ctrl-C ends a capture cleanly, so that the captured packets get into the file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Whether somebody wants the capture to end. To be made before other threads are started.
pub(crate) fn watch() -> io::Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let wanted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&wanted);
    let wait = move || {
        if signals.wait().is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
        if signals.wait().is_ok() {
            std::process::exit(INTERRUPTED);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(wanted)
}
