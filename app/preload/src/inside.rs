//! The stack inside the program, where `libweever_inside.so` brings one along.
//!
//! It starts with the first socket that is used, not with the first that is opened: a server opens its sockets, then
//! becomes a daemon, or has workers of which one uses them. A child of a process whose stack runs already has none
//! of its threads, and a device's queue has one owner: its sockets are the kernel's.

use std::collections::HashSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{c_int, c_uint};
use weever_app_sockets::{Backend, QueueConfig};

use crate::calls::calls;
use crate::numbers::{self, Meaning};
use crate::state::{State, lock};
use crate::{behind, deferred, interfaces, log, real, silence};

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

/// Opens the stack for a queue. Its threads take no signals, which are the program's.
pub(crate) fn start(config: &QueueConfig) -> Result<Box<dyn Backend>, Unavailable> {
    let inside = INSIDE.get().ok_or_else(|| Unavailable {
        why: "the library for a stack inside is not loaded".into(),
        in_use: false,
    })?;
    let signals = block_signals();
    let opened = (inside.open)(config);
    // SAFETY: the set that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
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

/// The stack starts, and the queue is opened: its descriptors are out of the program's reach from the end on. The
/// program's other threads open some of their own meanwhile.
pub(crate) struct Start(HashSet<(c_int, PathBuf)>);

impl Start {
    pub(crate) fn begin() -> Start {
        Start(descriptors().collect())
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let new = descriptors().filter(|there| !self.0.contains(there));
        for (number, _) in new.filter(|(number, what)| is_stacks(*number, what)) {
            numbers::set(number, Some(Meaning::Internal));
        }
    }
}

calls! {
    /// Makes an eventfd. The stack has some as well: those of the program are made before or after its start.
    fn eventfd(count: c_uint, flags: c_int) -> c_int {
        let _held = (is_chosen() && !deferred::has_lock()).then(lock);
        real::eventfd(count, flags)
    }
}

/// The open descriptors of this process, each with the target of its link (proc_pid_fd(5)).
fn descriptors() -> impl Iterator<Item = (c_int, PathBuf)> {
    let folder = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    folder.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, entry.path().read_link().ok()?))
    })
}

/// Whether a new descriptor is of a kind that a stack has: its memory, its program in the driver and the maps of that, its
/// sockets on the device, and what wakes its workers.
fn is_stacks(fd: c_int, what: &Path) -> bool {
    let what = what.to_string_lossy();
    let kinds = [
        "/memfd:weever-",
        "anon_inode:bpf-map",
        "anon_inode:bpf-prog",
        "anon_inode:bpf_link",
        "anon_inode:[eventfd]",
    ];
    let domain = || behind::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    kinds.iter().any(|kind| what.starts_with(kind))
        || what.starts_with("socket:") && matches!(domain(), Some(libc::AF_XDP | libc::AF_PACKET))
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
        // The program may have these numbers as well.
        let internal = |fd: &c_int| numbers::meaning(*fd) == Some(Meaning::Internal);
        numbers::used(0, u32::MAX).filter(internal).for_each(|fd| _ = numbers::set(fd, None));
        self.refused = true;
        self.orphaned = true;
    }
}
