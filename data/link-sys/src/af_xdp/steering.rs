//! The program that decides what is ours, and its attachment.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use weever_ebpf::sys::{AttachMode, BpfError, XdpLink};
use weever_ebpf::xdp::classify::Classifier;
use weever_ebpf::xdp::{Gate, Share as SteerShare, Steer};

use super::sorting::{self, Sorting};
use super::{Attach, Share};

/// What is steered to us; may be changed while packets flow, from any thread. What is ours is the
/// [`Gate`]'s to say; to which of a device queue's sockets it goes, if there are several, is for
/// [`sorting`](Self::sorting).
#[derive(Debug)]
pub struct Steering {
    program: Program,
}

#[derive(Debug)]
enum Program {
    /// A socket for each device queue.
    Plain(Steer, OnceLock<XdpLink>),
    /// Several. The gate is also the classifier's.
    Sorted(std::sync::Arc<Gate>, Mutex<Classifier>),
}

impl Steering {
    pub(super) fn load(share: &Share, queues: u16, sockets: u16) -> Result<Steering, BpfError> {
        let (kind, addresses, ports) = match share {
            Share::None => (SteerShare::None, &[][..], &[][..]),
            Share::Address(addresses) => (SteerShare::Address, &addresses[..], &[][..]),
            Share::Ports(addresses, ports) => (SteerShare::Ports, &addresses[..], &ports[..]),
        };
        let program = if sockets == 1 {
            Program::Plain(Steer::load(kind, u32::from(queues))?, OnceLock::new())
        } else {
            let (gate, classifier) = sorting::load(kind, queues, sockets)?;
            Program::Sorted(gate, Mutex::new(classifier))
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
            Program::Sorted(_, classifier) => {
                lock(classifier).clear_socket(place.into()).map(drop)
            }
        }
    }

    /// Which of a device queue's sockets gets what, if there are several. Holds a lock, so that
    /// whoever opens or closes a queue meanwhile waits.
    pub fn sorting(&self) -> Option<Sorting<'_>> {
        match &self.program {
            Program::Plain(..) => None,
            Program::Sorted(_, classifier) => Some(Sorting::new(lock(classifier))),
        }
    }
}

/// A classifier is whole after each of its calls, so a panic elsewhere does not spoil it.
fn lock(classifier: &Mutex<Classifier>) -> MutexGuard<'_, Classifier> {
    classifier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is ours: addresses, ports, counters.
impl Deref for Steering {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        match &self.program {
            Program::Plain(steer, _) => steer.gate(),
            Program::Sorted(gate, _) => gate,
        }
    }
}
