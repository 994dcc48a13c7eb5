//! Credentials of processes that were admitted as a user and changed it since, and where they are shown.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Proves that the process which has it, or one of its ancestors, was admitted by the stack as a user. The stack's next
/// run accepts it as well, so that a program which has changed its user comes back with the rights that it had. It is a
/// secret of the process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The user as which the process was admitted.
    pub user: u32,
    /// Its group at that time.
    pub group: u32,
    /// A keyed hash of both, with a key that only the stack has.
    pub proof: [u64; 2],
}

impl std::fmt::Debug for Credential {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential(user {}, group {}, ..)", self.user, self.group)
    }
}

/// The socket where credentials are shown, of a stack that serves applications at `path`: the kernel lets everybody
/// connect there, and keeps others than the stack's own applications away from `path`.
pub fn return_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".return");
    name.into()
}

/// The abstract name (unix(7)) of such a socket besides: programs that changed their root find it, in the same network
/// namespace. Anybody may have taken it, so those who connect [look](crate::control::Connection::peer_user) who listens.
/// `None` for a relative path, which says nothing of the stack, and one that is too long.
pub fn return_name(path: &Path) -> Option<Vec<u8>> {
    let name = [b"weever:", return_path(path).as_os_str().as_bytes()].concat();
    (path.is_absolute() && name.len() <= MOST).then_some(name)
}

/// The longest abstract name: `sun_path` without the zero in front.
const MOST: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_not_printed_and_the_path_is_beside_the_sockets() {
        let credential = Credential { user: 0, group: 7, proof: [4711, 4712] };
        let printed = format!("{credential:?}");
        assert!(printed.contains("group 7") && !printed.contains("471"), "{printed}");
        let name = return_name(Path::new("/run/apps.sock")).unwrap();
        assert_eq!(name, b"weever:/run/apps.sock.return");
        assert_eq!(return_name(Path::new("apps.sock")), None);
        assert_eq!(return_name(&Path::new("/").join("a".repeat(100))), None);
        let text = serde_json::to_string(&credential).unwrap();
        assert_eq!(serde_json::from_str::<Credential>(&text).unwrap(), credential);
        assert_eq!(return_path(Path::new("/run/apps.sock")), Path::new("/run/apps.sock.return"));
    }
}
