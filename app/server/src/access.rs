//! Who may connect, and the credentials of those who change their user afterwards.

use weever_app_ring::Credential;
use weever_net::random::Secret;

/// Whose applications may connect, beside root's and those of the user of this process.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Their users.
    pub users: Vec<u32>,
    /// The groups that they run with.
    pub groups: Vec<u32>,
}

impl Access {
    /// The permissions of the socket's file: the kernel keeps others away unless some are admitted.
    pub(crate) fn mode(&self) -> u32 {
        if self.users.is_empty() && self.groups.is_empty() { 0o600 } else { 0o666 }
    }

    pub(crate) fn admits(&self, user: u32, group: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        user == 0 || user == own || self.users.contains(&user) || self.groups.contains(&group)
    }
}

/// Gives credentials, and recognises those that a stack with the same secret gave.
pub(crate) struct Credentials(Secret);

impl Credentials {
    pub(crate) fn new(secret: Secret) -> Credentials {
        Credentials(secret)
    }

    pub(crate) fn issue(&self, user: u32, group: u32) -> Credential {
        let proof = self.0.key(&format!("application of user {user}, group {group}"));
        Credential { user, group, proof }
    }

    pub(crate) fn accepts(&self, credential: &Credential) -> bool {
        let right = self.issue(credential.user, credential.group).proof;
        // In the same time for all wrong ones.
        (right[0] ^ credential.proof[0]) | (right[1] ^ credential.proof[1]) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_admitted_by_user_or_group_only() {
        let own = rustix::process::geteuid().as_raw();
        let closed = Access::default();
        assert!(closed.admits(0, 7) && closed.admits(own, 7) && !closed.admits(4_000_000, 7));
        assert_eq!(closed.mode(), 0o600);
        let open = Access { users: vec![4_000_000], groups: vec![8] };
        assert!(open.admits(4_000_000, 7) && open.admits(4_000_001, 8));
        assert!(!open.admits(4_000_001, 7));
        assert_eq!(open.mode(), 0o666, "each connection is checked when it is made");
    }

    #[test]
    fn a_credential_is_for_one_user_and_group_and_one_secret() {
        let credentials = Credentials::new(Secret::new([1, 2]));
        let given = credentials.issue(0, 8);
        assert!(Credentials::new(Secret::new([1, 2])).accepts(&given), "after a restart");
        assert!(!Credentials::new(Secret::new([1, 3])).accepts(&given));
        let changed = [
            Credential { user: 1, ..given },
            Credential { group: 0, ..given },
            Credential { proof: [given.proof[0] ^ 1, given.proof[1]], ..given },
            Credential { proof: [given.proof[0], given.proof[1] ^ 1 << 63], ..given },
        ];
        assert!(changed.iter().all(|credential| !credentials.accepts(credential)));
    }
}
