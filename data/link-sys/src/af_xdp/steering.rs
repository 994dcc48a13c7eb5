//! The program that picks our frames, and its attachment.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weever_ebpf::sys::{AttachMode, BpfError, Map, MapKind, XdpLink};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_ebpf::xdp::{Gate, PortTable, Share as SteerShare, Steer};

use super::{AfXdpConfig, Attach, Pins, Share};

/// How many filters that look at the same bits there may be.
const FILTERS: u32 = 1 << 16;

/// The steering of frames to us; may be changed while packets flow, from any thread. The [`Gate`]
/// decides which frames are ours; the [`classifier`](Self::classifier) decides to which of a device
/// queue's sockets they go, if there are several.
#[derive(Debug)]
pub struct Steering {
    program: Program,
    /// Where it outlives the process.
    pins: Option<Pins>,
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
        config: &AfXdpConfig,
        queues: u16,
        sockets: u16,
    ) -> Result<Steering, BpfError> {
        let (gate, addresses, ports, pins) = match &config.share {
            Share::None => (Gate::new(SteerShare::None)?, &[][..], &[][..], None),
            Share::Address(addresses) => {
                (Gate::new(SteerShare::Address)?, &addresses[..], &[][..], None)
            }
            Share::Ports(addresses, ports) => {
                let table = match &config.pins {
                    Some(pins) => pins.ports(config.ephemeral)?,
                    None => PortTable::new(config.ephemeral)?,
                };
                // Before the first packet comes.
                table.extend_lease(config.lease)?;
                (Gate::by_port(table)?, &addresses[..], &ports[..], config.pins.clone())
            }
        };
        let program = if sockets == 1 && !config.classifies {
            Program::Plain(Box::new(Steer::behind(gate, u32::from(queues))?), OnceLock::new())
        } else {
            sorted(gate, queues, sockets)?
        };
        let steering = Steering { program, pins };
        addresses.iter().try_for_each(|address| steering.add_address(*address))?;
        ports.iter().try_for_each(|port| steering.add_port(*port))?;
        Ok(steering)
    }

    /// Attaches the program, in the place of one that was left attached.
    pub(super) fn attach(&self, ifindex: u32, attach: Attach) -> Result<AttachMode, BpfError> {
        let Some(pins) = &self.pins else { return self.attach_anew(ifindex, attach) };
        if let Some(mode) = self.take_over(pins, attach)? {
            return Ok(mode);
        }
        let mode = self.attach_anew(ifindex, attach)?;
        match &self.program {
            Program::Plain(_, link) => link.get().map(|link| pins.keep_link(link)),
            Program::Sorted(_, classifier) => {
                lock(classifier).link().map(|link| pins.keep_link(link))
            }
        }
        .transpose()?;
        Ok(mode)
    }

    /// No frame passes by neither program. `None` if no attachment was left, or one of another mode or of an interface
    /// that is gone.
    fn take_over(&self, pins: &Pins, attach: Attach) -> Result<Option<AttachMode>, BpfError> {
        let Some(link) = pins.link()? else { return Ok(None) };
        let mode = link.mode();
        let fits = match attach {
            Attach::Auto => true,
            Attach::Native => mode == AttachMode::Native,
            Attach::Generic => mode == AttachMode::Generic,
        };
        let taken = match &self.program {
            _ if !fits => false,
            Program::Plain(steer, kept) => {
                link.replace(steer.program()).map(|()| kept.get_or_init(|| link)).is_ok()
            }
            Program::Sorted(_, classifier) => lock(classifier).take_over(link).is_ok(),
        };
        if !taken {
            pins.forget_link();
        }
        Ok(taken.then_some(mode))
    }

    fn attach_anew(&self, ifindex: u32, attach: Attach) -> Result<AttachMode, BpfError> {
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

    /// Leaves a mark beside the ports that outlive the process: a file with this name. False without
    /// [`Pins`].
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless ports are shared; the kernel's word.
    pub fn mark(&self, name: &str) -> Result<bool, BpfError> {
        let ports = self.ports()?;
        let Some(pins) = &self.pins else { return Ok(false) };
        pins.mark(ports, name).map(|()| true)
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
fn sorted(gate: Gate, queues: u16, sockets: u16) -> Result<Program, BpfError> {
    let gate = Arc::new(gate);
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
