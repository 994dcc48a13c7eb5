//! Opening a device, step by step.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_ebpf::sys::AttachMode;
use weever_link::{Link, LinkInfo, LinkQueue, Offload};
use weever_packet::{Borrower, Flags, Takers};

use super::config::{release, shares_fill_rings};
use super::queue::{Facts, LEAST_LENT, XskQueue};
use super::sharing::{Member, ReceiveThreads, SharedRing};
use super::socket::{KERNEL_HEADROOM, Origin, Socket, extra_headroom};
use super::{AfXdpConfig, OpenError, Queues, RingSizes, Steering};
use crate::netdev::{self, Interface};
use crate::packet::receive_multicast;

/// Ethernet header and one VLAN tag.
const LINK_HEADER: u32 = 18;
/// Between two attempts at something that is in use.
const PAUSE: Duration = Duration::from_millis(5);
/// The most slots that a ring may have.
const MOST_SLOTS: u32 = 32_768;

/// A device opened over AF_XDP. The steering program stays attached until this, its queues and the
/// [`Steering`] handles are dropped.
pub struct AfXdp {
    info: LinkInfo,
    queues: Vec<XskQueue>,
    steering: Arc<Steering>,
    threads: Arc<ReceiveThreads>,
    /// While it is open, the device receives frames for all groups.
    _groups: OwnedFd,
}

impl AfXdp {
    /// Opens a device in the calling thread's network namespace. Blocks while its queues or its
    /// place for a program are in use, for as long as
    /// [`patience`](AfXdpConfig::patience) says.
    ///
    /// # Errors
    /// [`OpenError`] names the culprit and what to do about it.
    pub fn open(config: &AfXdpConfig) -> Result<AfXdp, OpenError> {
        config.rings.check()?;
        let device = Interface::find(&config.interface)?;
        check_mtu(config, &device)?;
        let opening = Opening::new(config, &device)?;
        let mut queues = opening.queues()?;
        let groups = receive_multicast(&config.interface)?;
        // Last, so that nothing is taken from the kernel before it can be received.
        let mode = opening.attach()?;
        opening.check_sharing(mode)?;
        let info = opening.info(mode, queues.first());
        if config.rotated {
            let of_queues = queues.chunks_mut(usize::from(opening.sockets)).enumerate();
            of_queues.for_each(|(queue, sockets)| sockets.rotate_right(queue % sockets.len()));
        }
        let Opening { steering, threads, .. } = opening;
        Ok(AfXdp { info, queues, steering, threads, _groups: groups })
    }

    /// The steering of frames to us.
    pub fn steering(&self) -> &Arc<Steering> {
        &self.steering
    }

    /// How many workers receive from each of the device's queues.
    pub fn threads(&self) -> &Arc<ReceiveThreads> {
        &self.threads
    }
}

impl Link for AfXdp {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let boxed = |queue| Box::new(queue) as Box<dyn LinkQueue>;
        std::mem::take(&mut self.queues).into_iter().map(boxed).collect()
    }
}

pub(super) fn check_mtu(config: &AfXdpConfig, device: &Interface) -> Result<(), OpenError> {
    let frame_size = config.pool.frame_size();
    let headroom = KERNEL_HEADROOM + extra_headroom(&config.pool);
    let most = frame_size.saturating_sub(headroom + LINK_HEADER);
    if device.mtu <= most {
        return Ok(());
    }
    Err(OpenError::Mtu { interface: device.name.clone(), mtu: device.mtu, most, frame_size })
}

fn check_senders(device: &Interface, queues: u16) -> Result<(), OpenError> {
    let senders = device.tx_queues;
    if u32::from(queues) <= senders {
        return Ok(());
    }
    Err(OpenError::NoSender { interface: device.name.clone(), queues, senders })
}

pub(super) struct Opening<'a> {
    config: &'a AfXdpConfig,
    device: &'a Interface,
    pub(super) steering: Arc<Steering>,
    queues: u16,
    /// How many share each.
    sockets: u16,
    threads: Arc<ReceiveThreads>,
    rings: RingSizes,
    lend: u32,
    deadline: Instant,
}

impl<'a> Opening<'a> {
    pub(super) fn new(
        config: &'a AfXdpConfig,
        device: &'a Interface,
    ) -> Result<Opening<'a>, OpenError> {
        let all = u16::try_from(device.rx_queues).unwrap_or(u16::MAX);
        let queues = match config.queues {
            Queues::All => all,
            Queues::First(n) => n.min(all),
        };
        check_senders(device, queues)?;
        let sockets = config.sockets_per_queue.max(1);
        let threads = ReceiveThreads::new(config.threads_per_queue.max(1), sockets, config.ordered);
        let threads = threads.map_err(|error| OpenError::threads(&device.name, error))?;
        let (rings, lend) = sizes(config, queues, sockets)?;
        let steering = Steering::load(config, queues, sockets)
            .map_err(|error| OpenError::bpf(&device.name, error))?;
        let (steering, deadline) = (Arc::new(steering), Instant::now() + config.patience);
        let threads = Arc::new(threads);
        Ok(Opening { config, device, steering, queues, sockets, threads, rings, lend, deadline })
    }

    /// All sockets, those of the first device queue in front.
    fn queues(&self) -> Result<Vec<XskQueue>, OpenError> {
        let mut queues: Vec<XskQueue> = Vec::new();
        for index in 0..self.queues.saturating_mul(self.sockets) {
            let queue = self.queue(index, &queues)?;
            queues.push(queue);
        }
        Ok(queues)
    }

    fn queue(&self, index: u16, before: &[XskQueue]) -> Result<XskQueue, OpenError> {
        let first = before.first();
        // The first socket on the same device queue, if this is another one.
        let elder = before.get(usize::from(index - index % self.sockets));
        let mut socket = self.socket(match (elder, first) {
            (Some(elder), _) => Origin::Shared(Arc::clone(&elder.socket.frames)),
            (None, Some(_)) => Origin::Registered,
            (None, None) => Origin::Pool(&self.config.pool, self.config.checksums),
        })?;
        // The pool's registration holds for all of its sockets.
        socket.metadata = first.map_or(socket.metadata, |first| first.socket.metadata);
        let device = match elder {
            Some(elder) => elder.device.clone(),
            None => self.borrower(index / self.sockets)?,
        };
        self.threads.watch(index % self.sockets, &socket.rx);
        let mut queue = XskQueue::new(socket, &self.facts(index, device), self.steering.clone());
        if self.sockets > 1 {
            let member = self.member(&queue.socket, index % self.sockets, elder);
            queue.join(member.map_err(|error| self.fail("epoll", error))?);
        }
        // Before binding, so that the device finds frames from its first packet on.
        queue.lend(self.config.lend_first);
        self.bind(&queue.socket, index / self.sockets, elder.or(first))?;
        queue.zero_copy =
            queue.socket.is_zero_copy().map_err(|error| self.fail("XDP_OPTIONS", error))?;
        self.direct(index, &queue.socket)?;
        Ok(queue)
    }

    /// The place of a device queue's socket among those that receive from it.
    fn member(&self, socket: &Socket, number: u16, elder: Option<&XskQueue>) -> io::Result<Member> {
        let shared = match elder.and_then(XskQueue::member) {
            Some(elder) => elder.shared(),
            None => Arc::new(SharedRing::new(Arc::clone(&socket.rx), Arc::clone(&self.threads))?),
        };
        Member::new(shared, number, socket.as_fd())
    }

    pub(super) fn socket(&self, origin: Origin<'_>) -> Result<Socket, OpenError> {
        let socket = Socket::new(&self.rings, origin, self.sockets);
        let pool_bytes = self.config.pool.region().len() as u64;
        let interface = &self.device.name;
        socket.map_err(|(what, source)| OpenError::pinning(interface, pool_bytes, what, source))
    }

    pub(super) fn bind(
        &self,
        socket: &Socket,
        queue: u16,
        first: Option<&XskQueue>,
    ) -> Result<(), OpenError> {
        let umem = first.map(|first| first.socket.as_fd());
        let (ifindex, copy) = (self.device.index, !self.config.zero_copy);
        let attempt = || socket.bind(ifindex, u32::from(queue), umem, copy);
        self.patiently(attempt, is_busy).map_err(|error| {
            if is_busy(&error) {
                return OpenError::QueueBusy { interface: self.device.name.clone(), queue };
            }
            self.fail("bind", error)
        })
    }

    pub(super) fn direct(&self, index: u16, socket: &Socket) -> Result<(), OpenError> {
        let directed = self.steering.direct(index, socket);
        directed.map_err(|error| OpenError::bpf(&self.device.name, error))
    }

    pub(super) fn attach(&self) -> Result<AttachMode, OpenError> {
        let attempt = || {
            let attached = self.steering.attach(self.device.index, self.config.attach);
            attached.map_err(|error| OpenError::bpf(&self.device.name, error))
        };
        self.patiently(attempt, |error| matches!(error, OpenError::OtherProgram { .. }))
    }

    /// Generic mode is known only once the program is attached.
    fn check_sharing(&self, mode: AttachMode) -> Result<(), OpenError> {
        let (interface, kernel) = (self.device.name.clone(), release());
        if self.sockets > 1 && mode == AttachMode::Generic && !shares_fill_rings(&kernel) {
            return Err(OpenError::SharedFillRing { interface, kernel });
        }
        Ok(())
    }

    /// Tries again while `busy` holds and there is time.
    fn patiently<T, E>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
        busy: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        loop {
            match attempt() {
                Err(error) if busy(&error) && Instant::now() < self.deadline => {
                    std::thread::sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    /// The device queue, as the pool's frames know it.
    fn borrower(&self, queue: u16) -> Result<Borrower, OpenError> {
        let name = format!("{}, queue {queue}", self.device.name);
        let takers = if self.sockets == 1 { Takers::One } else { Takers::Several };
        let borrower = self.config.pool.borrower(&name, takers);
        borrower.map_err(|error| OpenError::frames(&self.device.name, error))
    }

    fn facts(&self, index: u16, device: Borrower) -> Facts<'_> {
        Facts {
            link: &self.device.name,
            index,
            sockets: self.sockets,
            mtu: self.device.mtu as u16,
            flags: match self.device.partial_checksums() {
                true => Flags::MAY_BE_PARTIAL,
                false => Flags::NONE,
            },
            pool: &self.config.pool,
            device,
            lend: self.lend,
        }
    }

    fn fail(&self, what: &'static str, source: io::Error) -> OpenError {
        OpenError::call(&self.device.name, what, source)
    }

    fn info(&self, mode: AttachMode, first: Option<&XskQueue>) -> LinkInfo {
        let zero_copy = first.is_some_and(|queue| queue.zero_copy);
        // In copy mode the kernel's stack does the work that the device cannot.
        let index = self.device.index;
        let done = !zero_copy || netdev::completes_checksums(index).unwrap_or(false);
        let tx_checksum = done && first.is_some_and(|queue| queue.socket.metadata);
        let how = if zero_copy { "zero-copy" } else { "copy" };
        LinkInfo {
            name: self.device.name.clone(),
            mac: self.device.mac,
            mtu: self.device.mtu as u16,
            queues: self.queues.saturating_mul(self.sockets),
            partial_checksums: self.device.partial_checksums(),
            offload: Offload { tx_checksum, segmentation: false },
            mode: format!("AF_XDP {mode}, {how} mode"),
        }
    }
}

/// The rings' sizes, and how many frames each socket lends the device: the size of a fill ring that
/// it does not share, but no more than half the pool for all sockets together.
fn sizes(config: &AfXdpConfig, queues: u16, sockets: u16) -> Result<(RingSizes, u32), OpenError> {
    let (frames, queues) = (config.pool.frames(), queues.saturating_mul(sockets));
    let lend = (frames as u32 / 2 / u32::from(queues).max(1)).min(config.rings.fill);
    if lend < LEAST_LENT {
        let needed = 2 * LEAST_LENT as usize * usize::from(queues);
        let interface = config.interface.clone();
        return Err(OpenError::PoolTooSmall { interface, queues, needed, frames });
    }
    if sockets == 1 {
        return Ok((config.rings, lend));
    }
    let wide = |size: u32| (size * u32::from(sockets)).next_power_of_two().min(MOST_SLOTS);
    // A queue that no worker serves must not hold the frames of the others in its ring.
    let rx = config.rings.rx.min(1 << lend.ilog2());
    let (fill, completion) = (wide(config.rings.fill), wide(config.rings.completion));
    let lend = lend.min(fill / u32::from(sockets));
    Ok((RingSizes { rx, fill, completion, ..config.rings }, lend))
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_cannot_send_is_refused_with_the_remedy() {
        let device = Interface {
            name: "eth7".into(),
            index: 7,
            mac: [2; 6],
            mtu: 1500,
            driver: "ena".into(),
            rx_queues: 8,
            tx_queues: 2,
        };
        assert!(check_senders(&device, 2).is_ok(), "as many as can send");
        let error = check_senders(&device, 3).unwrap_err();
        assert!(matches!(error, OpenError::NoSender { queues: 3, senders: 2, .. }));
        let text = error.to_string();
        assert!(text.contains("ethtool -L eth7 rx 2 tx 2"), "{text}");
    }
}
