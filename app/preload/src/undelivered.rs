//! Datagrams that wait in a socket when another process gets it: on Linux they wait in the socket, and whichever process
//! reads first has them.
//!
//! ```text
//!  frames of a process' queue ── before fork, exec, sendmsg ──► a memory file: number of the next one │ datagrams
//!                                                                  ▲ mapped           ▲ copied, once
//!                                                                each process that has the socket
//! ```
//!
//! They are copied out of the frames of the process' queue, which no other process can use. A child has the copies by the
//! fork, others read them in the file; only the number of the next one lies in memory that all of them share. A process
//! takes a datagram by raising that number, so each is read once, in the order of arrival, whoever dies meanwhile.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_void};
use weever_app_sockets::{Info, RxBuf};

use crate::numbers::{self, Meaning};
use crate::real;

/// Bytes of the number in front of the datagrams.
const HEAD: usize = size_of::<u64>();
/// The longest file that is read: as many datagrams as a socket keeps, of the greatest length.
const LONGEST: usize = 64 << 20;
/// What is not possible with the file of a list, by which it is known: its length stays, so that reading the number never
/// faults.
const SEALS: c_int = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A copy of a datagram.
pub(crate) struct Copied {
    pub(crate) info: Info,
    pub(crate) octets: Box<[u8]>,
}

impl Copied {
    pub(crate) fn of(datagram: &RxBuf<'_>) -> Copied {
        Copied { info: datagram.info(), octets: datagram.to_vec().into() }
    }

    /// Adds it to the contents of a file.
    fn write(&self, to: &mut Vec<u8>) {
        to.extend((self.octets.len() as u32).to_ne_bytes());
        to.extend(self.info.to_bytes());
        to.extend(&self.octets);
    }

    /// Takes the first one of a file's contents.
    fn read(from: &mut &[u8]) -> Option<Copied> {
        let (len, rest) = from.split_first_chunk()?;
        let (info, rest) = rest.split_first_chunk()?;
        let (octets, rest) = rest.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
        *from = rest;
        Some(Copied { info: Info::from_bytes(info), octets: octets.into() })
    }
}

/// Datagrams of one socket that waited at one moment.
pub(crate) struct Undelivered {
    datagrams: Vec<Copied>,
    next: Shared,
    /// Nothing in a process that had no descriptor for it: then its children alone share the list.
    file: Option<Memory>,
}

impl Undelivered {
    /// No datagrams yet; `None` without memory.
    pub(crate) fn new() -> Option<Undelivered> {
        let file = Memory::new();
        let next = Shared::new(file.as_ref())?;
        Some(Undelivered { datagrams: Vec::new(), next, file })
    }

    /// Adds a datagram behind the others, before any other process has them.
    pub(crate) fn push(&mut self, datagram: Copied) {
        self.datagrams.push(datagram);
    }

    /// All are there, and other processes may get them.
    pub(crate) fn complete(&mut self) {
        let mut contents = Vec::new();
        self.datagrams.iter().for_each(|datagram| datagram.write(&mut contents));
        self.file.take_if(|file| contents.len() > LONGEST || !file.fill(&contents));
    }

    /// The list of a file that the program before or another process has made; nothing for another kind of file.
    pub(crate) fn open(file: OwnedFd) -> Option<Undelivered> {
        let file = Memory::keep(file)?;
        let contents = file.contents()?;
        let (mut rest, mut datagrams) = (&contents[..], Vec::new());
        while let Some(datagram) = Copied::read(&mut rest) {
            datagrams.push(datagram);
        }
        Some(Undelivered { datagrams, next: Shared::new(Some(&file))?, file: Some(file) })
    }

    /// A descriptor of the file, for the next program or another process.
    pub(crate) fn to_pass_on(&self) -> Option<OwnedFd> {
        numbers::duplicate(self.file.as_ref()?.0.as_raw_fd())
    }

    /// How many no process has taken.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len().saturating_sub(self.next.load())
    }

    /// The next one, which another process may take at any time.
    pub(crate) fn first(&self) -> Option<&Copied> {
        self.datagrams.get(self.next.load())
    }

    /// Takes the next one for this process.
    pub(crate) fn take(&self) -> Option<&Copied> {
        let most = self.datagrams.len() as u64;
        // Nothing else is published by the number: the copies were there before.
        let taken = self.next.get().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            (next < most).then_some(next + 1)
        });
        self.datagrams.get(usize::try_from(taken.ok()?).ok()?)
    }
}

/// A memory file, by a descriptor that the program does not know.
struct Memory(OwnedFd);

impl Memory {
    /// A file with room for the number.
    fn new() -> Option<Memory> {
        let flags = libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC;
        // SAFETY: a name that ends with a zero.
        let fd = unsafe { libc::memfd_create(c"weever datagrams".as_ptr(), flags) };
        // SAFETY: a descriptor that nobody else owns.
        let file = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
        // SAFETY: it has no pointers.
        let sized = unsafe { libc::ftruncate(file.as_raw_fd(), HEAD as libc::off_t) } == 0;
        if sized { Memory::keep(file) } else { None }
    }

    /// Keeps it under a high number.
    fn keep(file: OwnedFd) -> Option<Memory> {
        let file = Memory(numbers::duplicate(file.as_raw_fd())?);
        numbers::set(file.0.as_raw_fd(), Some(Meaning::Internal));
        Some(file)
    }

    /// Writes the datagrams, whose length stays the same from now on.
    fn fill(&self, contents: &[u8]) -> bool {
        let (fd, len) = (self.0.as_raw_fd(), contents.len());
        // SAFETY: as many readable bytes.
        let written =
            unsafe { libc::pwrite(fd, contents.as_ptr().cast(), len, HEAD as libc::off_t) };
        // SAFETY: it has no pointers.
        let sealed = unsafe { real::fcntl(fd, libc::F_ADD_SEALS, SEALS as usize) };
        written == len as isize && sealed == 0
    }

    /// What is behind the number, in a file of this kind.
    fn contents(&self) -> Option<Vec<u8>> {
        let fd = self.0.as_raw_fd();
        // SAFETY: it has no pointers; a descriptor of another kind is only asked.
        let seals = unsafe { real::fcntl(fd, libc::F_GET_SEALS, 0) };
        // SAFETY: it has no pointers.
        let end = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
        let len = usize::try_from(end).ok()?.checked_sub(HEAD)?;
        if seals != SEALS || len > LONGEST {
            return None;
        }
        let mut contents = vec![0; len];
        let to = contents.as_mut_ptr().cast::<c_void>();
        // SAFETY: as many writable bytes.
        let got = unsafe { libc::pread(fd, to, len, HEAD as libc::off_t) };
        (got == len as isize).then_some(contents)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        numbers::set(self.0.as_raw_fd(), None);
    }
}

/// A number in memory that other processes have as well.
struct Shared(NonNull<AtomicU64>);

impl Shared {
    /// The one of a file, which has at least eight bytes for as long as it is there; without a file, one for this process
    /// and its children.
    fn new(file: Option<&Memory>) -> Option<Shared> {
        let (kind, fd) = match file {
            Some(file) => (libc::MAP_SHARED, file.0.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), HEAD, access, kind, fd, 0) };
        (start != libc::MAP_FAILED).then(|| NonNull::new(start.cast()).map(Shared)).flatten()
    }

    fn get(&self) -> &AtomicU64 {
        // SAFETY: mapped as long as this value lives, aligned to a page, and any value is valid. The file does not become
        // shorter.
        unsafe { self.0.as_ref() }
    }

    fn load(&self) -> usize {
        usize::try_from(self.get().load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not borrowed any more. Other processes keep their mappings.
        unsafe { libc::munmap(self.0.as_ptr().cast(), HEAD) };
    }
}
