//! Several nodes in one step, for packets that take the usual way through them.

use weever_packet::{Burst, Mask};

use crate::{Build, BuildError};

/// A way through a graph: block types, each with the port by which packets leave it. Operators are
/// not listed; what they say follows. A node of a type that is not listed, or that was listed before
/// and is met again, is where the way ends; it may have several ends.
pub type Way = &'static [(&'static str, &'static str)];

/// How many ways a shortcut may know.
pub const MAX_WAYS: usize = 4;

/// A kind of [`Shortcut`].
///
/// An engine may use it wherever a graph has one of its ways, with nodes that have no parameters of
/// their own; it changes how fast a graph runs and nothing of what it does: the nodes' counters, the
/// reasons of drops and what becomes of each packet are the same.
#[derive(Clone, Copy, Debug)]
pub struct ShortcutType {
    /// What it is called.
    pub name: &'static str,
    /// One sentence: which packets take it.
    pub summary: &'static str,
    /// Its ways, at most [`MAX_WAYS`], which all begin with the same type.
    pub ways: &'static [Way],
    /// Makes a shortcut that begins at a node.
    pub make: fn(&Build<'_>) -> Result<Box<dyn Shortcut>, BuildError>,
}

impl ShortcutType {
    /// The type of the node at which the ways begin.
    pub fn start(&self) -> Option<&'static str> {
        let (name, _) = self.ways.first()?.first()?;
        Some(name)
    }
}

/// Judges packets in one step where the nodes of its ways would do it one after the other.
///
/// Only for nodes without state of their own that neither take packets away nor count, start or wake
/// anything for those that go the usual way.
pub trait Shortcut: Send {
    /// Adds to `ways[w]` those tasks of `input`, each with a packet, that the nodes of way number `w`
    /// would send along that way. Leaves their packets and metadata as those nodes would. A task
    /// that is added to none goes through the nodes as ever: of its packet's metadata, only that may
    /// have been written which those nodes write again before they read it, or would leave as it is.
    fn run(&mut self, burst: &mut Burst, input: Mask, ways: &mut [Mask]);
}
