//! Why a device could not be opened.

use std::io;

use rustix::process::{Resource, getrlimit};
use weever_ebpf::sys::BpfError;
use weever_packet::PoolError;

use crate::netdev::InterfaceError;

/// The step that registers a pool's memory with the kernel.
pub(super) const REGISTER_POOL: &str = "XDP_UMEM_REG";

/// Why a device could not be opened. Nothing of the attempt is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such interface, or it cannot be asked.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The process may not do it.
    #[error(
        "interface {interface}: {what}: not permitted; AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (run as root)"
    )]
    Permission {
        /// The interface.
        interface: String,
        /// The attempted action.
        what: &'static str,
    },
    /// The process may not lock as much memory as the kernel has to pin for the pool.
    #[error(
        "interface {interface}: {what}: the pool of {} MiB exceeds the limit of locked memory (RLIMIT_MEMLOCK, {}); raise it (`ulimit -l unlimited`, `LimitMEMLOCK=infinity` in a systemd unit), give the program CAP_IPC_LOCK, or use a smaller pool", .pool_bytes >> 20, limit_text(*.limit)
    )]
    LockedMemory {
        /// The interface.
        interface: String,
        /// The call that failed.
        what: &'static str,
        /// Bytes of the pool, all of which are pinned.
        pool_bytes: u64,
        /// The limit in bytes; `None` if there is none for this process.
        limit: Option<u64>,
    },
    /// The kernel has no AF_XDP.
    #[error("interface {interface}: this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)")]
    Unsupported {
        /// The interface.
        interface: String,
    },
    /// Another XDP program is attached.
    #[error(
        "interface {interface}: another XDP program is attached, perhaps by another weever; stop that (`bpftool link` tells whose it is), or, if it was attached without an owner, `ip link set dev {interface} xdp off`"
    )]
    OtherProgram {
        /// The interface.
        interface: String,
    },
    /// Another AF_XDP socket has the queue.
    #[error(
        "interface {interface}: queue {queue} is in use by another AF_XDP socket, perhaps of another weever; `ss --xdp -ep` shows whose"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u16,
    },
    /// Its packets do not fit the pool's frames.
    #[error(
        "interface {interface}: its MTU is {mtu}, but frames of {frame_size} bytes hold {most}; use `ip link set dev {interface} mtu {most}`{}",
        if larger_frames_help(*.mtu, *.most, *.frame_size) { ", or frames of 4096 bytes (`--frame-size 4096`)" } else { "" }
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// The largest that fits.
        most: u32,
        /// The pool's frame size.
        frame_size: u32,
    },
    /// Some of its queues receive but cannot send: an AF_XDP socket sends by the transmit queue of
    /// its number, and the kernel takes packets for one that is not there and never sends them.
    #[error(
        "interface {interface}: of {queues} queues to be opened only {senders} can send; use `ethtool -L {interface} rx {senders} tx {senders}` (`combined {senders}` on some drivers)"
    )]
    NoSender {
        /// The interface.
        interface: String,
        /// How many queues were to be opened.
        queues: u16,
        /// How many transmit queues there are.
        senders: u32,
    },
    /// The pool has too few frames.
    #[error(
        "interface {interface}: {queues} queues need a pool of at least {needed} frames, this one has {frames}"
    )]
    PoolTooSmall {
        /// The interface.
        interface: String,
        /// How many queues.
        queues: u16,
        /// How many frames are needed.
        needed: usize,
        /// How many there are.
        frames: usize,
    },
    /// More threads than sockets, or none.
    #[error("interface {interface}: {source}")]
    Threads {
        /// The interface.
        interface: String,
        /// Why.
        source: ThreadsError,
    },
    /// The pool lends no more frames.
    #[error("interface {interface}: {source}")]
    Frames {
        /// The interface.
        interface: String,
        /// Why.
        source: PoolError,
    },
    /// Several sockets on one queue would corrupt the ring of free frames that they share.
    #[error(
        "interface {interface}: this kernel ({kernel}) cannot have several sockets on one queue in generic mode: packets that arrive on two cores corrupt the ring of free frames (CVE-2025-37920, fixed in Linux 6.15, 6.14.6, 6.12.28, 6.6.123 and 6.1.164); use one worker for each queue, a device whose driver has XDP, or a newer kernel"
    )]
    SharedFillRing {
        /// The interface.
        interface: String,
        /// The kernel's release.
        kernel: String,
    },
    /// A ring's size is none.
    #[error("{ring} ring of {size} entries: use a power of two from 64 to 32768")]
    RingSize {
        /// Which ring.
        ring: &'static str,
        /// The size asked for.
        size: u32,
    },
    /// The steering program could not be loaded or attached.
    #[error("interface {interface}: {source}")]
    Bpf {
        /// The interface.
        interface: String,
        /// Why.
        source: BpfError,
    },
    /// A system call failed.
    #[error("interface {interface}: {what}: {source}")]
    Io {
        /// The interface.
        interface: String,
        /// The call.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
}

/// A number of threads that a device's queues cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{threads} threads cannot receive from one queue: use 1 to {most}, as many as there are workers"
)]
pub struct ThreadsError {
    pub(super) threads: u16,
    pub(super) most: u16,
}

impl OpenError {
    pub(super) fn frames(interface: &str, source: PoolError) -> OpenError {
        OpenError::Frames { interface: interface.to_owned(), source }
    }

    pub(super) fn threads(interface: &str, source: ThreadsError) -> OpenError {
        OpenError::Threads { interface: interface.to_owned(), source }
    }

    /// Sorts a failed call by its culprit.
    pub(super) fn call(interface: &str, what: &'static str, source: io::Error) -> OpenError {
        let interface = interface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenError::Permission { interface, what },
            Some(libc::EAFNOSUPPORT) => OpenError::Unsupported { interface },
            _ => OpenError::Io { interface, what, source },
        }
    }

    /// As [`call`](Self::call), for calls that may pin the pool's memory. The kernel answers `ENOBUFS`
    /// when that would exceed the limit of locked memory (`xdp_umem_account_pages`).
    pub(super) fn pinning(
        interface: &str,
        pool_bytes: u64,
        what: &'static str,
        source: io::Error,
    ) -> OpenError {
        let limit = getrlimit(Resource::Memlock).current;
        let is_short = limit.is_some_and(|limit| limit < pool_bytes);
        if what == REGISTER_POOL && is_short && source.raw_os_error() == Some(libc::ENOBUFS) {
            return OpenError::LockedMemory {
                interface: interface.into(),
                what,
                pool_bytes,
                limit,
            };
        }
        OpenError::call(interface, what, source)
    }

    pub(super) fn bpf(interface: &str, source: BpfError) -> OpenError {
        let interface = interface.to_owned();
        match &source {
            _ if source.is_denied() => {
                OpenError::Permission { interface, what: "load and attach an XDP program" }
            }
            BpfError::Attach { source: busy, .. } if is_taken(busy) => {
                OpenError::OtherProgram { interface }
            }
            _ => OpenError::Bpf { interface, source },
        }
    }
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or("unlimited".into(), |bytes| format!("{} KiB", bytes >> 10))
}

/// Whether packets of `mtu` fit frames of 4,096 bytes, of which as much is taken as of smaller ones.
fn larger_frames_help(mtu: u32, most: u32, frame_size: u32) -> bool {
    frame_size < 4096 && mtu <= 4096 - frame_size + most
}

/// EBUSY: by a program attached in the other way; EEXIST: by one in the other mode.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(errno: i32) -> OpenError {
        OpenError::call("eth7", "bind", io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_refused_call_says_what_it_takes() {
        for errno in [libc::EPERM, libc::EACCES] {
            let error = call(errno);
            assert!(matches!(error, OpenError::Permission { .. }));
            let text = error.to_string();
            for part in ["eth7", "bind", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn a_kernel_without_af_xdp_is_told_from_a_failure() {
        assert!(matches!(call(libc::EAFNOSUPPORT), OpenError::Unsupported { .. }));
        let failure = call(libc::ENOMEM);
        assert!(matches!(failure, OpenError::Io { .. }));
        assert!(failure.to_string().contains("eth7: bind"), "{failure}");
    }

    #[test]
    fn a_limit_of_locked_memory_is_named_with_its_remedies() {
        let failed = |what, bytes, errno| {
            OpenError::pinning("eth7", bytes, what, io::Error::from_raw_os_error(errno))
        };
        if getrlimit(Resource::Memlock).current.is_some() {
            let error = failed(REGISTER_POOL, u64::MAX >> 1, libc::ENOBUFS);
            assert!(matches!(error, OpenError::LockedMemory { .. }), "{error}");
        }
        let other = failed(REGISTER_POOL, 0, libc::ENOBUFS);
        assert!(matches!(other, OpenError::Io { .. }), "the limit is no reason: {other}");
        let (interface, what) = ("eth7".to_owned(), REGISTER_POOL);
        let (pool_bytes, limit) = (16 << 20, Some(8 << 20));
        let text = OpenError::LockedMemory { interface, what, pool_bytes, limit }.to_string();
        for part in ["eth7", "16 MiB", "8192 KiB", "RLIMIT_MEMLOCK", "ulimit -l", "LimitMEMLOCK"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn reasons_of_the_bpf_layer_are_sorted() {
        let denied = BpfError::Denied { action: "load".into() };
        assert!(matches!(OpenError::bpf("eth7", denied), OpenError::Permission { .. }));
        let other = BpfError::Setting { what: "odd".into() };
        assert!(matches!(OpenError::bpf("eth7", other), OpenError::Bpf { .. }));
    }

    #[test]
    fn larger_frames_are_only_advised_where_there_are_any() {
        let text = |frame_size, mtu| {
            let (interface, most) = ("eth7".into(), frame_size - 274);
            OpenError::Mtu { interface, mtu, most, frame_size }.to_string()
        };
        let in_reach = text(2048, 3822);
        assert!(in_reach.contains("mtu 1774") && in_reach.contains("--frame-size 4096"));
        for (frame_size, mtu) in [(4096, 9000), (2048, 3823)] {
            assert!(!text(frame_size, mtu).contains("--frame-size"), "{}", text(frame_size, mtu));
        }
    }
}
