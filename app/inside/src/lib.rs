//! `libweever_inside.so`: the socket calls of a program that knows nothing of weever, with the stack in that program.
//!
//! It is `libweever_preload.so` (`app/preload`) with a stack (`app/library`) linked to it, which starts when the
//! program uses its first socket: after it has become a daemon, or a worker, of which there can be one. Neither
//! library knows the other; this one introduces them.
//!
//! ```text
//!  WEEVER_APPS=library:dev=eth0,addr=192.0.2.10/24
//!                     │
//!  preload: the program's first socket ──► open ──► Library: a host, its keeper's thread
//!                     ◄──────────── a queue's backend ┘
//! ```
//!
//! The stack's text comes from `weever run --stack inside`. See `docs/design/0063-the-stack-inside-unmodified-programs.md`.
#![allow(unsafe_code, reason = "a function that runs before the program's own")]
#![cfg(target_os = "linux")]

use std::sync::{Mutex, PoisonError};

use weever_app_library::Library;
use weever_app_sockets::{Backend, QueueConfig};

/// Runs before the program's own code.
// SAFETY: it stores a function's address, which needs nothing of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    weever_preload::set_opener(open);
}

/// Starts the process' stack, or finds it, for a queue.
fn open(config: &QueueConfig) -> Result<Box<dyn Backend>, String> {
    static STACK: Mutex<Option<Library>> = Mutex::new(None);
    let mut stack = STACK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*stack {
        return Ok(library.backend());
    }
    let text = config.path.to_string_lossy();
    let settings = text.parse().map_err(|error| format!("{error}"))?;
    let library = Library::open(&settings).map_err(|error| error.to_string())?;
    Ok(stack.insert(library).backend())
}
