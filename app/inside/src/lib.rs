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
//!           its sockets are open ──► admit ──► packets of the device come
//! ```
//!
//! The stack's text comes from `weever run --stack inside`. See `docs/design/0063-the-stack-inside-unmodified-programs.md`.
#![allow(unsafe_code, reason = "a function that runs before the program's own")]
#![cfg(target_os = "linux")]

use std::sync::{Mutex, PoisonError};

use weever_app_library::{Entrance, Library, LibraryError};
use weever_app_sockets::{Backend, QueueConfig};
use weever_preload::{Inside, Unavailable};

/// Runs before the program's own code.
// SAFETY: it stores a function's address, which needs nothing of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    weever_preload::set_inside(Inside { open, admit });
}

/// The process' stack, and its entrance until that is opened.
static STACK: Mutex<(Option<Library>, Option<Entrance>)> = Mutex::new((None, None));

/// Starts the process' stack, or finds it, for a queue.
fn open(config: &QueueConfig) -> Result<Box<dyn Backend>, Unavailable> {
    let mut stack = STACK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &stack.0 {
        return Ok(library.backend());
    }
    let text = config.path.to_string_lossy();
    let opened = text.parse().and_then(|settings| Library::open_quietly(&settings));
    let (library, entrance) = opened.map_err(|error: LibraryError| Unavailable {
        why: error.to_string(),
        in_use: error.is_in_use(),
    })?;
    stack.1 = Some(entrance);
    Ok(stack.0.insert(library).backend())
}

/// Opens the stack's entrance, if it is closed.
fn admit() -> Result<(), String> {
    let mut stack = STACK.lock().unwrap_or_else(PoisonError::into_inner);
    stack.1.take().map_or(Ok(()), Entrance::open).map_err(|error| error.to_string())
}
