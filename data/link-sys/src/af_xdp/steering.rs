//! The program that picks our frames, and its attachment.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weever_ebpf::sys::{AttachMode, BpfError, Map, MapKind, XdpLink};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_ebpf::xdp::{Gate, Share as SteerShare, Steer};

use super::{Attach, Share};

/// How many filters that look at the same bits there may be.
const FILTERS: u32 = 1 << 16;

/// The steering of frames to us; may be changed while packets flow, from any thread. The [`Gate`]
/// decides which frames are ours; the [`classifier`](Self::classifier) decides to which of a device
/// queue's sockets they go, if there are several.
#[derive(Debug)]
pub struct Steering {
    program: Program,
}

#[derive(Debug)]
enum Program {
    /// A socket for each device queue.
    Plain(Box<Steer>, OnceLock<XdpLink>),
    /// Several, or flows are counted. The gate is also the classifier's.
    Sorted(Arc<Gate>, Arc<Mutex<Classifier>>),
}

impl Steering {
    pub(super) fn load(
        share: &Share,
        queues: u16,
        sockets: u16,
        classifies: bool,
    ) -> Result<Steering, BpfError> {
        let (kind, addresses, ports) = match share {
            Share::None => (SteerShare::None, &[][..], &[][..]),
            Share::Address(addresses) => (SteerShare::Address, &addresses[..], &[][..]),
            Share::Ports(addresses, ports) => (SteerShare::Ports, &addresses[..], &ports[..]),
        };
        let program = if sockets == 1 && !classifies {
            Program::Plain(Box::new(Steer::load(kind, u32::from(queues))?), OnceLock::new())
        } else {
            sorted(kind, queues, sockets)?
        };
        let steering = Steering { program };
        addresses.iter().try_for_each(|address| steering.add_address(*address))?;
        ports.iter().try_for_each(|port| steering.add_port(*port))?;
        Ok(steering)
    }

    pub(super) fn attach(&self, ifindex: u32, attach: Attach) -> Result<AttachMode, BpfError> {
        let mode = match attach {
            Attach::Auto => None,
            Attach::Native => Some(AttachMode::Native),
            Attach::Generic => Some(AttachMode::Generic),
        };
        match &self.program {
            Program::Plain(steer, link) => {
                let attached = match mode {
                    None => steer.attach(ifindex),
                    Some(mode) => steer.attach_in(ifindex, mode),
                }?;
                Ok(link.get_or_init(|| attached).mode())
            }
            Program::Sorted(_, classifier) => {
                let mut classifier = lock(classifier);
                match mode {
                    None => classifier.attach(ifindex),
                    Some(mode) => classifier.attach_in(ifindex, mode),
                }?;
                Ok(classifier.mode().unwrap_or(AttachMode::Generic))
            }
        }
    }

    /// `place` numbers the link's queues.
    pub(super) fn direct(&self, place: u16, socket: &impl AsFd) -> Result<(), BpfError> {
        match &self.program {
            Program::Plain(steer, _) => steer.set_socket(u32::from(place), socket),
            Program::Sorted(_, classifier) => lock(classifier).set_socket(place.into(), socket),
        }
    }

    pub(super) fn undirect(&self, place: u16) -> Result<(), BpfError> {
        match &self.program {
            Program::Plain(steer, _) => steer.clear_socket(u32::from(place)).map(drop),
            Program::Sorted(_, classifier) => lock(classifier).clear_socket(place.into()),
        }
    }

    /// The choice between a device queue's sockets, if there are several or it was [asked
    /// for](super::AfXdpConfig::classifies): software queue *i* of a filter is the *i*-th socket,
    /// for packets of any device queue. At first everything is for the first one. Closing a queue
    /// waits for the lock.
    pub fn classifier(&self) -> Option<&Arc<Mutex<Classifier>>> {
        match &self.program {
            Program::Plain(..) => None,
            Program::Sorted(_, classifier) => Some(classifier),
        }
    }
}

/// A classifier behind a gate.
fn sorted(share: SteerShare, queues: u16, sockets: u16) -> Result<Program, BpfError> {
    let gate = Arc::new(Gate::new(share)?);
    let (queues, sockets) = (u32::from(queues), u32::from(sockets));
    let map = Map::create(MapKind::XskMap, "weever_xsks", 4, 4, (queues * sockets).max(1))?;
    let (sink, first) = (Sink::Sockets { map, queues: sockets }, Fallback::To(Target::Queue(0)));
    let classifier = Classifier::load_behind(Arc::clone(&gate), sink, first, FILTERS)?;
    Ok(Program::Sorted(gate, Arc::new(Mutex::new(classifier))))
}

/// A classifier is whole after each of its calls, so a panic elsewhere does not spoil it.
fn lock(classifier: &Mutex<Classifier>) -> MutexGuard<'_, Classifier> {
    classifier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The selection of our frames: addresses, ports, counters.
impl Deref for Steering {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        match &self.program {
            Program::Plain(steer, _) => steer.gate(),
            Program::Sorted(gate, _) => gate,
        }
    }
}
