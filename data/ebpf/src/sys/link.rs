//! Attaching programs to interfaces, for as long as a descriptor lives.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::pin;
use super::program::ATTACH_XDP;
use super::program::{Attributes, Command, bpf, bpf_fd};
use super::{AttachMode, BpfError, XdpProgram};

/// Within this time a link that was closed is released.
const RELEASED: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A program attached to an interface. Dropping it, or the end of the process however it comes,
/// detaches the program and leaves the interface to the kernel, unless the link was [pinned](Self::pin).
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnedFd,
    ifindex: u32,
    mode: AttachMode,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_LINK_CREATE.
unsafe impl Attributes for Create {}

#[repr(C)]
#[derive(Default)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_LINK_UPDATE.
unsafe impl Attributes for Update {}

#[repr(C)]
#[derive(Default)]
struct Detach {
    link: u32,
}
// SAFETY: an integer, laid out as the variant of BPF_LINK_DETACH.
unsafe impl Attributes for Detach {}

#[repr(C)]
#[derive(Default)]
struct Question {
    object: u32,
    length: u32,
    /// The address of an [`Info`].
    info: u64,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_OBJ_GET_INFO_BY_FD.
unsafe impl Attributes for Question {}

/// `struct bpf_link_info` of an XDP link.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind: u32,
    id: u32,
    program: u32,
    unused: u32,
    /// 0 when nothing is attached by it any more.
    ifindex: u32,
    rest: [u32; 3],
}

impl XdpLink {
    /// Attaches in the driver, or if that fails for another reason than permission or an attached
    /// program, in the stack; [`mode`](Self::mode) says which.
    ///
    /// # Errors
    /// [`BpfError::Attach`] with the reason of the last attempt.
    pub fn attach(program: &XdpProgram, ifindex: u32) -> Result<XdpLink, BpfError> {
        match Self::attach_in(program, ifindex, AttachMode::Native) {
            Err(BpfError::Attach { source, .. }) if worth_another_mode(&source) => {
                Self::attach_in(program, ifindex, AttachMode::Generic)
            }
            result => result,
        }
    }

    /// Attaches in one mode. If another program is attached, it tries again for a second: a link that was closed just
    /// now goes when the last copy of its descriptor does, and a thread that starts a program copies all of them for a
    /// moment.
    ///
    /// # Errors
    /// [`BpfError::Attach`] with the kernel's reason.
    pub fn attach_in(
        program: &XdpProgram,
        ifindex: u32,
        mode: AttachMode,
    ) -> Result<XdpLink, BpfError> {
        let (program, started) = (program.as_fd().as_raw_fd() as u32, Instant::now());
        loop {
            let mut attributes =
                Create { program, ifindex, attach_type: ATTACH_XDP, flags: mode.flags() };
            // SAFETY: no addresses in it; the command returns a descriptor.
            match unsafe { bpf_fd(Command::LinkCreate, &mut attributes) } {
                Ok(fd) => return Ok(XdpLink { fd, ifindex, mode }),
                Err(busy) if is_busy(&busy) && started.elapsed() < RELEASED => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(source) => {
                    let hint = hint(&source);
                    return Err(BpfError::Attach { ifindex, mode, source, hint });
                }
            }
        }
    }

    /// Gives the link a name in a BPF file system: the program stays attached when this process has ended, until
    /// the file is removed.
    ///
    /// # Errors
    /// The kernel's word: EEXIST, ENOENT, EINVAL in a file system of another kind.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin::keep(&self.fd, path)
    }

    /// The link that was [pinned](Self::pin) there, of an attachment to this interface in this mode. `None` if nothing
    /// is there. The interface may be gone: [`replace`](Self::replace) tells.
    ///
    /// # Errors
    /// The kernel's word: EPERM without CAP_BPF.
    pub fn open_pinned(
        path: &Path,
        ifindex: u32,
        mode: AttachMode,
    ) -> Result<Option<XdpLink>, BpfError> {
        Ok(pin::open(path)?.map(|fd| XdpLink { fd, ifindex, mode }))
    }

    /// Puts another program in place of the one attached; no frame passes by neither.
    ///
    /// # Errors
    /// The kernel's word (ENODEV: the interface is gone).
    pub fn replace(&self, program: &XdpProgram) -> Result<(), BpfError> {
        let mut attributes = Update {
            link: self.fd.as_raw_fd() as u32,
            program: program.as_fd().as_raw_fd() as u32,
            ..Update::default()
        };
        // SAFETY: no addresses in it.
        unsafe { bpf(Command::LinkUpdate, &mut attributes) }.map(drop).map_err(|source| {
            BpfError::call(format!("replace the XDP program of interface {}", self.ifindex), source)
        })
    }

    /// Whether the program is still attached: others may detach it (`bpftool link detach`), and with an interface that
    /// goes, it goes. (`ip link set dev DEVICE xdp off` is refused by the kernel while the link lives.)
    ///
    /// # Errors
    /// The kernel's word.
    pub fn is_attached(&self) -> Result<bool, BpfError> {
        let mut info = Info::default();
        let mut question = Question {
            object: self.fd.as_raw_fd() as u32,
            length: size_of::<Info>() as u32,
            info: (&raw mut info) as u64,
        };
        // SAFETY: the address is that of `info`, which is live and `length` octets long, and not read meanwhile.
        let asked = unsafe { bpf(Command::ObjectInfo, &mut question) };
        asked.map_err(|source| {
            BpfError::call(
                format!("ask after the XDP program of interface {}", self.ifindex),
                source,
            )
        })?;
        Ok(info.ifindex != 0)
    }

    /// Detaches the program, as anybody may with the link's number (`bpftool link detach`). The link stays, of nothing.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn detach(&self) -> Result<(), BpfError> {
        let mut attributes = Detach { link: self.fd.as_raw_fd() as u32 };
        // SAFETY: no addresses in it.
        unsafe { bpf(Command::LinkDetach, &mut attributes) }.map(drop).map_err(|source| {
            BpfError::call(format!("detach the XDP program of interface {}", self.ifindex), source)
        })
    }

    /// The mode the program runs in.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// The interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

impl AsFd for XdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

fn worth_another_mode(native: &io::Error) -> bool {
    !matches!(native.raw_os_error(), Some(libc::EPERM | libc::EBUSY | libc::ENODEV))
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM) => "; it needs CAP_NET_ADMIN and CAP_BPF",
        Some(libc::EBUSY | libc::EEXIST) => {
            "; another XDP program is attached: stop whose it is (`bpftool link` tells), or, if it was attached without an owner, `ip link set dev DEVICE xdp off`"
        }
        // The kernel says EINVAL if there is none; drivers say it for settings they cannot combine.
        Some(libc::EINVAL | libc::ENODEV) => {
            "; is there such an interface in this network namespace? If so, see the kernel's log"
        }
        Some(libc::ERANGE) => "; the MTU (on veth, of the peer too) is too large: lower it to 3498",
        Some(libc::EOPNOTSUPP) => "; the driver has no XDP in this mode",
        _ => "",
    }
}
