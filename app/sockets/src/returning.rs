//! Coming back to the next stack with the rights that a process had before it changed its user or its root.

use std::path::Path;

use rustix::io::Errno;
use weever_app_ring::control::{Connection, ControlError, Request, Response};
use weever_app_ring::{Credential as Shown, return_name, return_path};

use crate::error::{Error, accepted};

/// The user of whom the kernel speaks where the present user namespace has no number for one (user_namespaces(7)).
const OVERFLOW: u32 = 65_534;

/// What a process shows the stack to have the rights of the user as which it was admitted; a secret of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// What the stack checks.
    pub shown: Shown,
    /// The user of the stack that gave it. Nobody else gets to see it.
    pub stack: u32,
}

impl Credential {
    /// The credential of an answer, by a stack of this user.
    pub(crate) fn of(answer: Response, stack: u32) -> Result<Credential, Error> {
        match answer {
            Response::Credential { credential: shown } => Ok(Credential { shown, stack }),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// The user as which the process was admitted.
    pub fn user(&self) -> u32 {
        self.shown.user
    }

    /// A connection to the stack at `path` with these rights.
    pub(crate) fn connect(&self, path: &Path) -> Result<Connection, Error> {
        let beside = return_path(path);
        let found = Connection::connect_soon(&beside).and_then(|found| self.checked(found));
        // After a change of the root, the path leads nowhere or somewhere else.
        let found = found.or_else(|why| self.by_name(path).ok_or(why));
        let connection = found.map_err(|source| Error::of_connecting(&beside, source))?;
        connection.send(&Request::Present { credential: self.shown }, &[])?;
        accepted(connection.receive()?.0)?;
        Ok(connection)
    }

    /// By the abstract name that the stack has besides, if it is the stack that has it.
    fn by_name(&self, path: &Path) -> Option<Connection> {
        let named = Connection::connect_to_name(&return_name(path)?).ok()?;
        // Users without a number here look the same: any of them may be the one that listens.
        self.checked(named).ok().filter(|_| self.stack != OVERFLOW)
    }

    /// The connection, if a process of the stack's user listens at its other end.
    fn checked(&self, connection: Connection) -> Result<Connection, ControlError> {
        if connection.peer_user()? == self.stack {
            return Ok(connection);
        }
        let call = "connect to a socket of another user than the stack's";
        Err(ControlError::System { call, source: Errno::PERM })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::net::{SocketAddrUnix, accept, bind, listen};
    use weever_app_ring::control::seqpacket;

    use super::*;

    #[test]
    fn nothing_is_shown_to_another_user_than_the_stacks() {
        let path = std::env::temp_dir().join(format!("weever-impostor-{}", std::process::id()));
        let name = return_name(&path).unwrap();
        let places = [
            SocketAddrUnix::new(return_path(&path)).unwrap(),
            SocketAddrUnix::new_abstract_name(&name).unwrap(),
        ];
        let impostors = places.map(|place| {
            let socket = seqpacket().unwrap();
            bind(&socket, &place).unwrap();
            listen(&socket, 4).unwrap();
            socket
        });
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        let shown = Shown { user: 0, group: 0, proof: [1, 2] };
        let refused = Credential { shown, stack: own + 1 }.connect(&path).map(drop).unwrap_err();
        assert!(matches!(refused, Error::NoStack { .. }), "{refused}");
        // One that accepts nobody holds nobody up.
        while Connection::connect_to_name(&name).is_ok() {}
        while Connection::connect_soon(&return_path(&path)).is_ok() {}
        let refused = Credential { shown, stack: own }.connect(&path);
        assert!(matches!(refused, Err(Error::NoStack { .. })), "{refused:?}");
        for impostor in impostors {
            let came = Connection::over(accept(&impostor).unwrap());
            assert!(came.receive::<Request>().is_err(), "it ends without a word");
        }
        std::fs::remove_file(return_path(&path)).unwrap();
    }
}
