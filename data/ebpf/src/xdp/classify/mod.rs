//! Sorting received frames into software queues by filters: the `xdp` model's steering.
//!
//! A [`Classifier`] is a program and its maps. [Exact](Classifier::insert) filters, and all that
//! differ in values only, share a hash map: one is added or removed by one update of the map, while
//! the program runs. Filters with ranges, or that have to be asked in an order, are compiled into
//! the program as a tree ([`Classifier::set_ordered`]); the program is exchanged at once then, and
//! no frame is lost.
//!
//! A frame goes by the first of these that matches: the maps, the one that looks at most bits
//! first; the ordered filters in their order; the [`Fallback`].

mod exact;
mod filters;
mod layout;
mod parse;
mod program;
mod rule;
mod sample;
#[cfg(test)]
mod tests;
mod tree;

pub use filters::{MOST_MASKS, MOST_ORDERED};
pub use program::{Fallback, SPREAD, Sink};
use program::{ProgramParts, write_spread};
use rule::setting;
pub use rule::{Field, Rule, Target, Test};
pub use sample::MissedFlow;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use super::Gate;
use crate::sys::{AttachMode, BpfError, Map, MapKind, XdpLink, XdpProgram};

/// A loaded classifier.
#[derive(Debug)]
pub struct Classifier {
    /// How many filters each map takes.
    capacity: u32,
    parts: ProgramParts,
    program: XdpProgram,
    link: Option<XdpLink>,
}

impl Classifier {
    /// Loads a program without filters. Each of its maps takes up to `capacity` filters.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN; [`BpfError::Setting`] for a
    /// capacity of 0 or an empty list to spread over.
    pub fn load(sink: Sink, fallback: Fallback, capacity: u32) -> Result<Classifier, BpfError> {
        Classifier::behind(None, sink, fallback, capacity)
    }

    /// The same for frames that `gate` lets in; the kernel gets the rest. Only then is counted how
    /// many frames went to sockets and to the kernel.
    ///
    /// # Errors
    /// As [`Classifier::load`].
    pub fn load_behind(
        gate: Arc<Gate>,
        sink: Sink,
        fallback: Fallback,
        capacity: u32,
    ) -> Result<Classifier, BpfError> {
        Classifier::behind(Some(gate), sink, fallback, capacity)
    }

    fn behind(
        gate: Option<Arc<Gate>>,
        sink: Sink,
        fallback: Fallback,
        capacity: u32,
    ) -> Result<Classifier, BpfError> {
        if capacity == 0 {
            return setting("a classifier for no filters: give a capacity of 1 or more");
        }
        let spread = Map::create(MapKind::Array, "weever_spread", 4, 4 * SPREAD as u32, 1)?;
        let missed = Map::create(MapKind::PerCpuArray, "weever_missed", 4, 8, 1)?;
        write_spread(&spread, &fallback)?;
        let parts = ProgramParts {
            gate,
            exact: Vec::new(),
            ordered: Vec::new(),
            ordered_hits: None,
            sink,
            fallback,
            spread,
            missed,
            sampling: None,
        };
        let program = parts.load()?;
        Ok(Classifier { capacity, parts, program, link: None })
    }

    /// Attaches the program to an interface; it stays until the classifier is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        self.link = Some(XdpLink::attach(&self.program, ifindex)?);
        Ok(())
    }

    /// As [`attach`](Self::attach), in the given mode only.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_in(&mut self, ifindex: u32, mode: AttachMode) -> Result<(), BpfError> {
        self.link = Some(XdpLink::attach_in(&self.program, ifindex, mode)?);
        Ok(())
    }

    /// Puts the program in the place of the one that a link has attached, and keeps the link as
    /// [`attach`](Self::attach) would.
    ///
    /// # Errors
    /// The kernel's word (the interface is gone).
    pub fn take_over(&mut self, link: XdpLink) -> Result<(), BpfError> {
        link.replace(&self.program)?;
        self.link = Some(link);
        Ok(())
    }

    /// How the program is attached: a link, to be [pinned](XdpLink::pin).
    pub fn link(&self) -> Option<&XdpLink> {
        self.link.as_ref()
    }

    /// Whether the program is no longer attached although it was: somebody detached it, or the interface is gone.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn is_detached(&self) -> Result<bool, BpfError> {
        self.link.as_ref().map_or(Ok(false), |link| link.is_attached().map(|is| !is))
    }

    /// Attaches the program as it was attached before.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_again(&mut self) -> Result<(), BpfError> {
        let Some((ifindex, mode)) = self.link.as_ref().map(|l| (l.ifindex(), l.mode())) else {
            return Ok(());
        };
        self.attach_in(ifindex, mode)
    }

    /// Loads the program for the new filters, and replaces the present one with it.
    fn exchange(&mut self) -> Result<(), BpfError> {
        let program = self.parts.load()?;
        if let Some(link) = &self.link {
            link.replace(&program)?;
        }
        self.program = program;
        Ok(())
    }

    /// How the program is attached, if it is.
    pub fn mode(&self) -> Option<AttachMode> {
        self.link.as_ref().map(XdpLink::mode)
    }

    /// Which frames it gets, unless all.
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        self.parts.gate.as_ref()
    }

    /// Where frames go that go to a queue.
    pub fn sink(&self) -> &Sink {
        &self.parts.sink
    }

    /// The loaded program.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }
}

impl Classifier {
    /// Sends the frames that arrive on a hardware queue and are for a software queue to an AF_XDP
    /// socket. The socket has its rings already, and is bound to this very hardware queue: frames
    /// for one bound elsewhere are dropped silently.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if the sink is not [`Sink::Sockets`]; the kernel's word: E2BIG beyond
    /// the map's size, EOPNOTSUPP if the descriptor is no AF_XDP socket with rings.
    pub fn set_socket(&self, place: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd();
        self.sockets()?.update(&place.to_ne_bytes(), &fd.to_ne_bytes())
    }

    /// Leaves the frames for the socket at a place to the kernel.
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
