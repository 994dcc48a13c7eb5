//! Maps: tables shared between a program in the kernel and us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use super::BpfError;
use super::pin;
use super::program::{Attributes, Command, address, address_mut, bpf, bpf_fd, object_name};

/// The kinds of maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Any key.
    Hash = 1,
    /// Keys `0..entries` as `u32`; all present from the start.
    Array = 2,
    /// As `Array`, with a value per possible CPU.
    PerCpuArray = 6,
    /// Any key; when it is full, the entry unused for longest makes room.
    LruHash = 9,
    /// Keys `0..entries` as `u32`, values are interfaces to redirect to.
    DevMap = 14,
    /// Keys `0..entries` as `u32`, values are CPUs to redirect to: the length of its queue and the
    /// descriptor of a program to run there (0: none), both as `u32`.
    CpuMap = 16,
    /// Keys `0..entries` as `u32`, values are AF_XDP sockets to redirect to.
    XskMap = 17,
}

/// A map; the kernel frees it when the last descriptor and the last program using it are gone.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    name: String,
    key_size: usize,
    value_size: usize,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_MAP_CREATE.
unsafe impl Attributes for Create {}

#[repr(C)]
#[derive(Default)]
struct Element {
    fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: integers only, padding explicit, laid out as the variant of BPF_MAP_*_ELEM.
unsafe impl Attributes for Element {}

#[repr(C)]
#[derive(Default)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_MAP_*_BATCH.
unsafe impl Attributes for Batch {}

/// How many entries one call takes out. More than any bucket of a hash holds in practice.
const BATCH: usize = 1024;

impl Map {
    /// Makes a map. `name` is for people (`bpftool map`); 15 characters of it are kept.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF; else the kernel's word.
    pub fn create(
        kind: MapKind,
        name: &str,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    ) -> Result<Map, BpfError> {
        let mut attributes = Create {
            kind: kind as u32,
            key_size,
            value_size,
            max_entries,
            name: object_name(name),
            ..Create::default()
        };
        // SAFETY: no addresses in it; the command returns a descriptor.
        let fd = unsafe { bpf_fd(Command::MapCreate, &mut attributes) }.map_err(|source| {
            BpfError::call(format!("create {kind:?} map `{name}` of {max_entries}"), source)
        })?;
        let (key_size, value_size) = (key_size as usize, value_size as usize);
        Ok(Map { fd, kind, name: name.to_owned(), key_size, value_size })
    }

    /// Opens a map that was [pinned](Self::pin), which has to be of these sizes. `None` if nothing is there.
    ///
    /// # Errors
    /// The kernel's word: EPERM without CAP_BPF.
    pub fn open_pinned(
        path: &Path,
        kind: MapKind,
        name: &str,
        key_size: u32,
        value_size: u32,
    ) -> Result<Option<Map>, BpfError> {
        let Some(fd) = pin::open(path)? else { return Ok(None) };
        let (key_size, value_size) = (key_size as usize, value_size as usize);
        Ok(Some(Map { fd, kind, name: name.to_owned(), key_size, value_size }))
    }

    /// Gives the map a name in a BPF file system, which keeps it when this process has ended, until the file
    /// is removed.
    ///
    /// # Errors
    /// The kernel's word: EEXIST, ENOENT, EINVAL in a file system of another kind.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin::keep(&self.fd, path)
    }

    /// Every key of a map that nobody else changes meanwhile.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, BpfError> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key_size];
            let mut attributes = Element {
                fd: self.fd.as_raw_fd() as u32,
                key: keys.last().map_or(0, |key| address(key)),
                value: address_mut(&mut next),
                ..Element::default()
            };
            // SAFETY: both are live and as large as the map's keys; no key at all asks for the first.
            let found = unsafe { bpf(Command::MapNextKey, &mut attributes) };
            if !self.present("list", found)? {
                return Ok(keys);
            }
            keys.push(next);
        }
    }

    /// The map's name, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size in bytes of the values that [`lookup`](Self::lookup) and [`update`](Self::update)
    /// exchange: for per-cpu maps the values of all possible CPUs, each rounded up to 8 bytes.
    pub fn exchange_size(&self) -> usize {
        match self.kind {
            MapKind::PerCpuArray => {
                self.value_size.next_multiple_of(8) * possible_cpus().unwrap_or(1)
            }
            _ => self.value_size,
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`BpfError::Size`] if key or value have the wrong size; else the kernel's word (E2BIG: the
    /// map is full, or the index out of range).
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        self.check("key", self.key_size, key.len())?;
        self.check("value", self.exchange_size(), value.len())?;
        let mut attributes = self.element(key, address(value));
        // SAFETY: key and value are live and as large as the kernel reads, checked above.
        unsafe { bpf(Command::MapUpdate, &mut attributes) }
            .map(drop)
            .map_err(|source| self.failed("update", source))
    }

    /// Copies the value of a key into `value` and says whether the key was there.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<bool, BpfError> {
        self.check("key", self.key_size, key.len())?;
        self.check("value", self.exchange_size(), value.len())?;
        let mut attributes = self.element(key, address_mut(value));
        // SAFETY: as in `update`, and `value` is exclusively ours.
        let found = unsafe { bpf(Command::MapLookup, &mut attributes) };
        self.present("look up in", found)
    }

    /// Removes a key and says whether it was there.
    ///
    /// # Errors
    /// As [`update`](Self::update); arrays cannot lose keys.
    pub fn remove(&self, key: &[u8]) -> Result<bool, BpfError> {
        self.check("key", self.key_size, key.len())?;
        let mut attributes = self.element(key, 0);
        // SAFETY: the key is live and as large as the kernel reads.
        let removed = unsafe { bpf(Command::MapDelete, &mut attributes) };
        self.present("remove from", removed)
    }

    /// Takes every entry out of a [`MapKind::Hash`] or [`MapKind::LruHash`], gives each to `take`,
    /// key and value, and returns how many there were. Entries that a program adds meanwhile are
    /// taken or stay.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn drain(&self, mut take: impl FnMut(&[u8], &[u8])) -> Result<usize, BpfError> {
        let mut keys = vec![0; BATCH * self.key_size];
        let mut values = vec![0; BATCH * self.value_size];
        let (mut position, mut all) = (None, 0);
        loop {
            let (count, at_end) = self.drain_some(&mut position, &mut keys, &mut values)?;
            let entries = keys.chunks(self.key_size).zip(values.chunks(self.value_size));
            entries.take(count).for_each(|(key, value)| take(key, value));
            all += count;
            if at_end {
                return Ok(all);
            }
        }
    }

    /// One call from `position`, which moves on. Says how many entries there were, and whether the
    /// last bucket was among those that were looked through.
    fn drain_some(
        &self,
        position: &mut Option<u32>,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> Result<(usize, bool), BpfError> {
        let (from, mut to) = (position.map(|p| [p]), [0u32]);
        let mut attributes = Batch {
            from: from.as_ref().map_or(0, |p| address(p)),
            to: address_mut(&mut to),
            keys: address_mut(keys),
            values: address_mut(values),
            count: BATCH as u32,
            map: self.fd.as_raw_fd() as u32,
            ..Batch::default()
        };
        // SAFETY: the positions are a word each, keys and values are exclusively ours and have room
        // for as many entries as `count` says; the map is a hash, with words as positions.
        let done = unsafe { bpf(Command::MapDrain, &mut attributes) };
        *position = Some(to[0]);
        match done {
            Ok(_) => Ok((attributes.count as usize, false)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
                Ok((attributes.count as usize, true))
            }
            Err(e) => Err(self.failed("take entries out of", e)),
        }
    }

    fn element(&self, key: &[u8], value: u64) -> Element {
        let fd = self.fd.as_raw_fd() as u32;
        Element { fd, key: address(key), value, ..Element::default() }
    }

    fn check(&self, what: &'static str, expected: usize, got: usize) -> Result<(), BpfError> {
        if expected == got {
            return Ok(());
        }
        Err(BpfError::Size { map: self.name.clone(), what, expected, got })
    }

    fn present(&self, verb: &str, result: io::Result<i32>) -> Result<bool, BpfError> {
        match result {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(self.failed(verb, e)),
        }
    }

    fn failed(&self, verb: &str, source: io::Error) -> BpfError {
        BpfError::call(format!("{verb} map `{}`", self.name), source)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The number of CPUs the kernel can ever have, which is the number of values in each entry of a
/// per-cpu map. Read once; `None` if sysfs is not mounted or unreadable.
pub fn possible_cpus() -> Option<usize> {
    static COUNT: OnceLock<Option<usize>> = OnceLock::new();
    *COUNT.get_or_init(|| count_of(&std::fs::read_to_string(POSSIBLE).ok()?))
}

/// The list's last CPU plus one: the kernel numbers possible CPUs without relying on the gaps.
fn count_of(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::count_of;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(count_of("0\n"), Some(1));
        assert_eq!(count_of("0-1\n"), Some(2));
        assert_eq!(count_of("0-3,8-15\n"), Some(16));
        assert_eq!(count_of(""), None);
        assert_eq!(count_of("all"), None);
    }
}
