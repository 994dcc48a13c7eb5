//! Where the control sockets lie.
//!
//! A stack on device `eth0` listens on `/run/weever/eth0.sock`; one whose user may not write
//! there on `$XDG_RUNTIME_DIR/weever/eth0.sock`.

use std::path::{Path, PathBuf};

/// Where system services keep their sockets.
pub const SYSTEM_DIRECTORY: &str = "/run/weever";

/// The socket of the stack on `link` in `directory`.
pub fn in_directory(directory: &Path, link: &str) -> PathBuf {
    directory.join(format!("{link}.sock"))
}

/// The directories in which stacks listen, the system's first.
pub fn directories() -> Vec<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let user = user.map(|dir| PathBuf::from(dir).join("weever"));
    std::iter::once(PathBuf::from(SYSTEM_DIRECTORY)).chain(user).collect()
}

/// The sockets in `directories`, sorted by name within each. Some may be left over from stacks
/// that were killed. A directory that cannot be read counts as empty.
pub fn list(directories: &[PathBuf]) -> Vec<PathBuf> {
    directories.iter().flat_map(|directory| list_one(directory)).collect()
}

fn list_one(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "sock")).collect();
    sockets.sort();
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_ending_and_in_order() {
        let directory = std::env::temp_dir().join(format!("weever-list-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["b.sock", "a.sock", "c.txt"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let found = list(&[directory.join("missing"), directory.clone()]);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(found, [in_directory(&directory, "a"), in_directory(&directory, "b")]);
    }
}
