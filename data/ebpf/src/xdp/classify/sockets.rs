//! The sockets that a classifier sends to.

use std::os::fd::{AsFd, AsRawFd};

use super::rule::setting;
use super::{Classifier, Sink};
use crate::sys::{BpfError, Map};

impl Classifier {
    /// Sends what goes to a software queue, of what arrives on a hardware queue, to an AF_XDP
    /// socket. The socket has its rings already, and is bound to this very hardware queue: frames
    /// for one bound elsewhere are dropped without a word.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if the sink is not [`Sink::Sockets`]; the kernel's word: E2BIG beyond
    /// the map's size, EOPNOTSUPP if the descriptor is no AF_XDP socket with rings.
    pub fn set_socket(&self, place: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd();
        self.sockets()?.update(&place.to_ne_bytes(), &fd.to_ne_bytes())
    }

    /// Leaves what would go to the socket at a place to the kernel.
    ///
    /// # Errors
    /// As [`Classifier::set_socket`].
    pub fn clear_socket(&self, place: u32) -> Result<(), BpfError> {
        self.sockets()?.remove(&place.to_ne_bytes()).map(drop)
    }

    fn sockets(&self) -> Result<&Map, BpfError> {
        match self.sink() {
            Sink::Sockets { map, .. } => Ok(map),
            Sink::Cpus(_) | Sink::Count => setting("only a classifier for sockets has sockets"),
        }
    }
}
