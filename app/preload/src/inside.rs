//! The stack inside the program, where `libweever_inside.so` brings one along.
//!
//! It starts with the first socket that is used, not with the first that is opened: a server opens its sockets, then
//! becomes a daemon, or has workers of which one uses them. A child of a process whose stack runs already has none
//! of its threads, and a device's queue has one owner: its sockets are the kernel's.

use std::collections::HashSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::OnceLock;

use libc::c_int;
use weever_app_sockets::{Backend, QueueConfig};

use crate::numbers::{self, Meaning};
use crate::state::State;
use crate::{interfaces, log, silence};

/// The stack that may be inside.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// Gives a queue its stack, which it starts if need be. The device's packets do not come to it yet.
    pub open: fn(&QueueConfig) -> Result<Box<dyn Backend>, Unavailable>,
    /// The program's sockets are open on the stack: packets come to it from now on.
    pub admit: fn() -> Result<(), String>,
}

/// Why there is no stack inside this process.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// The reason.
    pub why: String,
    /// Another process has the device, and perhaps a stack for the same sockets.
    pub in_use: bool,
}

static INSIDE: OnceLock<Inside> = OnceLock::new();

/// How the configured stack's text begins, where the stack is to be inside.
const SCHEME: &str = "library:";

/// Makes `library:…` in `WEEVER_APPS` mean this stack. The first one counts.
pub fn set_inside(inside: Inside) {
    let _first = INSIDE.set(inside);
}

/// The text of the stack that is to be inside, if it is.
fn text() -> Option<&'static str> {
    crate::queue::config().path.to_str().filter(|text| text.starts_with(SCHEME))
}

/// Whether the stack is to be inside this program.
pub(crate) fn is_chosen() -> bool {
    text().is_some()
}

/// The values of a key in that stack's text.
fn values(key: &str) -> impl Iterator<Item = &'static str> {
    let parts = text().into_iter().flat_map(|text| text[SCHEME.len()..].split(','));
    parts.filter_map(move |part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The addresses of that stack, by its text.
fn addresses() -> impl Iterator<Item = IpAddr> {
    values("addr").filter_map(|address| address.split('/').next()?.parse().ok())
}

/// Whether that stack has this address, by its text.
fn has(address: IpAddr) -> bool {
    addresses().any(|own| own == address)
}

/// Lets packets come to the stack, which has the program's sockets now.
pub(crate) fn admit() {
    let admitted = INSIDE.get().map_or(Ok(()), |inside| (inside.admit)());
    if let Err(why) = admitted {
        log::always(format_args!("no packets come to the stack inside: {why}"));
    }
}

/// Opens the stack for a queue. Its threads take no signals, which are the program's, and its descriptors are out of
/// the program's reach.
pub(crate) fn start(config: &QueueConfig) -> Result<Box<dyn Backend>, Unavailable> {
    let inside = INSIDE.get().ok_or_else(|| Unavailable {
        why: "the library for a stack inside is not loaded".into(),
        in_use: false,
    })?;
    let before = descriptors();
    let signals = block_signals();
    let opened = (inside.open)(config);
    // SAFETY: the set that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
    for fd in descriptors().difference(&before) {
        numbers::set(*fd, Some(Meaning::Internal));
    }
    opened.inspect_err(|Unavailable { why, .. }| {
        log::always(format_args!("no stack inside, sockets are the kernel's: {why}"))
    })
}

/// Blocks all signals in this thread and the threads that it starts; returns the previous signal mask.
pub(crate) fn block_signals() -> libc::sigset_t {
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

    /// The kernel's socket behind this descriptor is about to be reached: it answers nothing that comes for the stack
    /// inside.
    pub(crate) fn keep_silent(&self, fd: c_int, address: IpAddr) {
        if self.refused || !is_chosen() || !(address.is_unspecified() || has(address)) {
            return;
        }
        let device = values("dev").next().and_then(|device| CString::new(device).ok());
        let interface = device.map_or(0, |device| interfaces::number(&device));
        if interface != 0 {
            silence::begin(fd, interface, &addresses().collect::<Vec<_>>());
        }
    }

    /// There will be no stack inside: the kernel answers for all sockets.
    pub(crate) fn give_back(&mut self) {
        self.files.iter_mut().for_each(|(_, file)| file.kernel = true);
        let ours = |fd: &c_int| numbers::file(*fd).is_some();
        numbers::used(0, u32::MAX).filter(ours).for_each(silence::end);
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
