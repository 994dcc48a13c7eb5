//! The stack inside the program, where `libweever_inside.so` brings one along.
//!
//! It starts with the first socket that is used, not with the first that is opened: a server opens its sockets, then
//! becomes a daemon, or has workers of which one uses them. A child of a process whose stack runs already has none
//! of its threads, and a device's queue has one owner: its sockets are the kernel's.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::OnceLock;

use libc::c_int;
use weever_app_sockets::{Backend, QueueConfig};

use crate::numbers::{self, Meaning};
use crate::state::State;
use crate::{log, open};

/// Gives a queue its stack, which it starts if need be; the reason if it cannot.
pub type Opener = fn(&QueueConfig) -> Result<Box<dyn Backend>, String>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// How the configured stack's text begins, where the stack is to be inside.
const SCHEME: &str = "library:";

/// Makes `library:…` in `WEEVER_APPS` mean a stack that this opens. The first one counts.
pub fn set_opener(opener: Opener) {
    let _first = OPENER.set(opener);
}

/// The text of the stack that is to be inside, if it is.
fn text() -> Option<&'static str> {
    open::config().path.to_str().filter(|text| text.starts_with(SCHEME))
}

/// Whether the stack is to be inside this program.
pub(crate) fn is_chosen() -> bool {
    text().is_some()
}

/// Whether that stack has this address, by its text.
fn has(address: IpAddr) -> bool {
    let parts = text().into_iter().flat_map(|text| text[SCHEME.len()..].split(','));
    let addresses = parts.filter_map(|part| part.strip_prefix("addr=")?.split('/').next());
    addresses.filter_map(|own| own.parse::<IpAddr>().ok()).any(|own| own == address)
}

/// Opens the stack for a queue. Its threads take no signals, which are the program's, and its descriptors are out of
/// the program's reach.
pub(crate) fn start(config: &QueueConfig) -> Result<Box<dyn Backend>, String> {
    let opener = OPENER.get().ok_or("the library for a stack inside is not loaded")?;
    let before = descriptors();
    let signals = block_signals();
    let opened = opener(config);
    // SAFETY: the set that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
    for fd in descriptors().difference(&before) {
        numbers::set(*fd, Some(Meaning::Internal));
    }
    opened.inspect_err(|why| {
        log::always(format_args!("no stack inside, sockets are the kernel's: {why}"))
    })
}

/// Blocks all signals in this thread and the threads that it starts; returns the previous signal mask.
fn block_signals() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: two sets to write, of which the first is written before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// This process' descriptors.
fn descriptors() -> HashSet<c_int> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return HashSet::new() };
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    folder.filter_map(number).collect()
}

impl State {
    /// Whether a socket at this address can wait for the stack until it is used.
    pub(crate) fn can_wait(&self, address: IpAddr) -> bool {
        let has = || address.is_unspecified() || has(address);
        self.queue.is_none() && !self.refused && is_chosen() && has()
    }

    /// In a child of a process whose stack runs: nothing here is touched, since it is the parent's.
    pub(crate) fn abandon(&mut self) {
        for (_, file) in self.files.iter_mut() {
            file.forget_received();
        }
        self.forget_queue();
        self.refused = true;
        self.orphaned = true;
    }
}
