//! Sockets that a program duplicates before they become weever's: all of their descriptors lead to the same one
//! afterwards.

use libc::c_int;

use crate::handover::{inode, sockets};
use crate::numbers::{self, Meaning};
use crate::state::State;

/// Sockets that are remembered at the most. Most stay the kernel's, and are forgotten when others come.
const MOST: usize = 64;

impl State {
    /// A socket of the kernel's was duplicated.
    pub(crate) fn note_twin(&mut self, fd: c_int) {
        let Some(inode) = inode(fd).filter(|inode| !self.twins.contains(inode)) else { return };
        if self.twins.len() == MOST {
            self.twins.remove(0);
        }
        self.twins.push(inode);
    }

    /// The socket of a descriptor is weever's from now on, and so it is by its duplicates.
    pub(crate) fn adopt_twins(&mut self, fd: c_int, place: u32) {
        if self.twins.is_empty() {
            return;
        }
        let Some(socket) = inode(fd) else { return };
        let Some(at) = self.twins.iter().position(|inode| *inode == socket) else { return };
        self.twins.remove(at);
        for (inode, twin) in sockets() {
            let Some(file) = self.files.get_mut(place) else { return };
            if inode == socket
                && numbers::meaning(twin).is_none()
                && numbers::set(twin, Some(Meaning::File(place)))
            {
                file.descriptors += 1;
                self.adopt_interest(twin, place);
            }
        }
    }
}
