//! The part of a device's steering that outlives the process: its attachment and the ports that it takes, as files in a
//! BPF file system.
//!
//! The folder of a device has the number of the network namespace and that of the interface in its name. In it are
//! `ports` (the map), `native` or `generic` (the attachment, named after its mode), and marks: other names of the map,
//! which only say something.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use weever_ebpf::sys::{AttachMode, BpfError, XdpLink};
use weever_ebpf::xdp::{Port, PortTable};

/// Where BPF file systems are mounted.
const MOUNT: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC`.
const MAGIC: i64 = 0xcafe_4a11;
const PORTS: &str = "ports";
/// The attachment's names.
const MODES: [(&str, AttachMode); 2] =
    [("native", AttachMode::Native), ("generic", AttachMode::Generic)];

/// The files of one device. The files themselves stay when this is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    folder: PathBuf,
    ifindex: u32,
}

impl Pins {
    /// Those of an interface of the calling thread's network namespace. Nothing is made.
    ///
    /// # Errors
    /// If `/proc` does not tell the namespace.
    pub fn of(ifindex: u32) -> io::Result<Pins> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let folder = Path::new(MOUNT).join("weever").join(format!("{namespace}-{ifindex}"));
        Ok(Pins { folder, ifindex })
    }

    /// Makes their folder. A BPF file system is mounted at `/sys/fs/bpf` if there is none, as `bpftool` and `ip` do.
    ///
    /// # Errors
    /// The system's word: EPERM without CAP_SYS_ADMIN where none is mounted.
    pub fn prepare(&self) -> io::Result<()> {
        if statfs(MOUNT)?.f_type as i64 != MAGIC {
            mount()?;
        }
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a steering was left there, or is in use.
    pub fn exist(&self) -> bool {
        MODES.iter().any(|(name, _)| self.folder.join(name).exists())
    }

    /// Removes them: a program that is attached by nobody else is detached, and its ports are the kernel's.
    ///
    /// # Errors
    /// The system's word. Those that are not there are no error.
    pub fn remove(&self) -> io::Result<()> {
        for name in self.names()? {
            fs::remove_file(self.folder.join(name))?;
        }
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The names of all files, marks included.
    ///
    /// # Errors
    /// The system's word.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| entry.map(name)).collect()
    }

    /// The ports that were left there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn left(&self) -> Result<Vec<Port>, BpfError> {
        PortTable::inherit(&self.folder.join(PORTS), None)?.held()
    }

    /// The ports that were left there, all held; else new ones, which are left there from now on.
    pub(super) fn ports(&self, range: Option<(u16, u16)>) -> Result<PortTable, BpfError> {
        let path = self.folder.join(PORTS);
        let is_new = !path.exists();
        let ports = PortTable::inherit(&path, range)?;
        if is_new {
            ports.pin(&path)?;
        }
        Ok(ports)
    }

    /// The attachment that was left there.
    pub(super) fn link(&self) -> Result<Option<XdpLink>, BpfError> {
        for (name, mode) in MODES {
            let link = XdpLink::open_pinned(&self.folder.join(name), self.ifindex, mode)?;
            if link.is_some() {
                return Ok(link);
            }
        }
        Ok(None)
    }

    /// Forgets the attachment: its interface is gone, or it is to be made anew.
    pub(super) fn forget_link(&self) {
        for (name, _) in MODES {
            // What cannot be removed is reported when the next one is kept.
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    pub(super) fn keep_link(&self, link: &XdpLink) -> Result<(), BpfError> {
        let name = MODES.iter().find(|(_, mode)| *mode == link.mode()).map_or("", |(name, _)| name);
        link.pin(&self.folder.join(name))
    }

    /// Leaves a mark, if it is not there.
    pub(super) fn mark(&self, ports: &PortTable, name: &str) -> Result<(), BpfError> {
        let path = self.folder.join(name);
        if path.exists() { Ok(()) } else { ports.pin(&path) }
    }
}

fn mount() -> io::Result<()> {
    let (kind, target) = (CString::new("bpf")?, CString::new(MOUNT)?);
    let (flags, data) = (libc::MS_NOSUID | libc::MS_NOEXEC | libc::MS_NODEV, std::ptr::null());
    // SAFETY: the strings are live and end in a zero, and there are no data.
    let done = unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
