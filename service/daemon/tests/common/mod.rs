//! Helpers of several tests.

pub(crate) mod kernel;
pub(crate) mod peer;
pub(crate) mod steered;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A path for a socket that no other test uses.
pub(crate) fn temporary_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("weever-daemon-{}-{number}.sock", std::process::id()))
}
