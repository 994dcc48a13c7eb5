//! The places of control sockets.
//!
//! A stack on device `eth0` listens on `/run/weever/eth0.sock`; one whose user may not write there on
//! `$XDG_RUNTIME_DIR/weever/eth0.sock`. Devices of several network namespaces may have the same name, and
//! namespaces usually share `/run`: outside the namespace of process 1, the name has the namespace's number
//! in it, as in `eth0@4026532178.sock`. That number is the inode that `stat -L /proc/self/ns/net` shows. A
//! process that may not look at process 1 takes the namespace that Linux starts with for that one, if its
//! number is the one which Linux has given it since 6.18.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory for sockets of system services.
pub const SYSTEM_DIRECTORY: &str = "/run/weever";

/// Sockets in the same directories that are no control sockets.
const OTHERS: [&str; 1] = ["apps"];

/// `NET_NS_INIT_INO` of `linux/nsfs.h`.
const INITIAL_NAMESPACE: u64 = 0xefff_fff9;

/// The socket of the stack on `link` in `directory`, in the network namespace of the calling thread.
pub fn in_directory(directory: &Path, link: &str) -> PathBuf {
    directory.join(match namespace() {
        None => format!("{link}.sock"),
        Some(number) => format!("{link}@{number}.sock"),
    })
}

/// The directories in which stacks listen, the system's first.
pub fn directories() -> Vec<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let user = user.map(|dir| PathBuf::from(dir).join("weever"));
    std::iter::once(PathBuf::from(SYSTEM_DIRECTORY)).chain(user).collect()
}

/// A control socket as its name describes it. The stack may have been killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSocket {
    /// The file.
    pub path: PathBuf,
    /// The device.
    pub device: String,
    /// The number of its network namespace; `None` for that of process 1.
    pub namespace: Option<u64>,
}

impl FoundSocket {
    fn of(path: PathBuf) -> Option<FoundSocket> {
        let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        let numbered = name.rsplit_once('@');
        let numbered = numbered.and_then(|(device, number)| Some((device, number.parse().ok()?)));
        let (device, namespace) = match numbered {
            Some((device, number)) => (device.to_owned(), Some(number)),
            None => (name.to_owned(), None),
        };
        (!OTHERS.contains(&name)).then_some(FoundSocket { path, device, namespace })
    }

    /// Whether its stack is in the network namespace of the calling thread.
    pub fn is_here(&self) -> bool {
        self.namespace == namespace()
    }
}

/// The control sockets in `directories`, sorted by name within each. A directory that cannot be read counts
/// as empty.
pub fn list(directories: &[PathBuf]) -> Vec<FoundSocket> {
    directories.iter().flat_map(|directory| list_one(directory)).collect()
}

fn list_one(directory: &Path) -> Vec<FoundSocket> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut sockets: Vec<FoundSocket> =
        entries.filter_map(|entry| FoundSocket::of(entry.ok()?.path())).collect();
    sockets.sort_by(|a, b| a.path.cmp(&b.path));
    sockets
}

/// The number of the calling thread's network namespace; `None` for that of process 1.
fn namespace() -> Option<u64> {
    let number = |path| std::fs::metadata(path).ok().map(|found| found.ino());
    let own = number("/proc/thread-self/ns/net")?;
    // Some processes may not look at process 1.
    let first = number("/proc/1/ns/net").unwrap_or(INITIAL_NAMESPACE);
    (own != first).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_ending_and_in_order() {
        let directory = std::env::temp_dir().join(format!("weever-list-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["b.sock", "a@17.sock", "x@y.sock", "c.txt", "apps.sock", ".weever.lock"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let found = list(&[directory.join("missing"), directory.clone()]);
        std::fs::remove_dir_all(&directory).unwrap();
        let found: Vec<_> = found.iter().map(|s| (s.device.as_str(), s.namespace)).collect();
        assert_eq!(found, [("a", Some(17)), ("b", None), ("x@y", None)]);
    }

    #[test]
    fn a_name_is_found_again() {
        let path = in_directory(Path::new("/run/weever"), "eth0");
        let found = FoundSocket::of(path).unwrap();
        assert!(found.is_here() && found.device == "eth0", "{found:?}");
    }
}
