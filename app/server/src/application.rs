//! An application that is connected, and whether it is admitted.

use std::os::fd::{AsFd, BorrowedFd};

use weever_app_ring::Credential;
use weever_app_ring::control::{Connection, ControlError};

use crate::access::{Access, Credentials};
use crate::request::Identity;
use crate::session::{Answer, Session};

/// An application that is connected.
pub(crate) struct Application {
    pub(crate) connection: Connection,
    pub(crate) session: Session,
    /// The user and group as which it is admitted; `None`: it has yet to show a credential.
    pub(crate) admitted: Option<(u32, u32)>,
    /// Its process.
    pub(crate) pid: u32,
    /// The user of its process when it connected, as the kernel says.
    pub(crate) uid: u32,
    /// How many had connected before.
    pub(crate) arrival: u64,
}

impl Application {
    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }

    pub(crate) fn send(&self, (response, descriptors): &Answer) -> Result<(), ControlError> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        self.connection.send(response, &descriptors)
    }

    /// It has shown a credential: whether it is admitted by that.
    pub(crate) fn present(
        &mut self,
        credential: &Credential,
        access: &Access,
        credentials: &Credentials,
    ) -> bool {
        let Credential { user, group, .. } = *credential;
        let accepted = credentials.accepts(credential) && access.admits(user, group);
        if accepted {
            self.admitted = Some((user, group));
            let identity = Identity { name: String::new(), pid: self.pid, uid: user };
            self.session = Session::new(identity);
        }
        accepted
    }
}
