//! How to open a device.

use std::net::IpAddr;
use std::time::Duration;

use weever_ebpf::xdp::Port;
use weever_packet::Pool;

use super::{OpenError, Pins};

/// The traffic taken from a device that the kernel uses too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Everything: `share = none`.
    None,
    /// Packets to these addresses, ARP and neighbour solicitations for them included: `share =
    /// address`. More can be taken later through [`Steering`](super::Steering).
    Address(Vec<IpAddr>),
    /// Packets to these addresses of the kernel's and these ports, and ICMP errors about packets
    /// sent from them: `share = ports`. Address resolution and fragments stay with the kernel.
    /// Addresses and ports can be changed later through [`Steering`](super::Steering).
    Ports(Vec<IpAddr>, Vec<Port>),
}

/// The queues of a device that get a socket. Frames that arrive on the others stay with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// All of them.
    #[default]
    All,
    /// The first so many, as far as there are.
    First(u16),
}

/// Where partial transport checksums of sent packets are completed, if the kernel supports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumOffload {
    /// Nowhere: the stack completes them before it sends.
    None,
    /// The device.
    #[default]
    Device,
    /// The kernel, in software before the packet gets to the device: for tests.
    Kernel,
}

/// Where the steering program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// In the driver if it can, else in the kernel's stack.
    #[default]
    Auto,
    /// In the driver only.
    Native,
    /// In the kernel's stack only.
    Generic,
}

/// Sizes of each queue's rings, powers of two from 64 to 32,768.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Received packets that wait for us.
    pub rx: u32,
    /// Packets that wait to be sent.
    pub tx: u32,
    /// Frames for the device to receive into. No more than half the pool is lent at once.
    pub fill: u32,
    /// Sent packets whose frames wait for us. With `tx` it limits the packets on their way out.
    pub completion: u32,
}

impl Default for RingSizes {
    /// 1,024 each: with more, the frames that go round and their bookkeeping outgrow a core's
    /// second-level cache, and receiving costs twice as much.
    fn default() -> RingSizes {
        RingSizes { rx: 1024, tx: 1024, fill: 1024, completion: 1024 }
    }
}

impl RingSizes {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let rings = [
            ("rx", self.rx),
            ("tx", self.tx),
            ("fill", self.fill),
            ("completion", self.completion),
        ];
        let bad = |(_, size): &(_, u32)| !size.is_power_of_two() || !(64..=32768).contains(size);
        match rings.into_iter().find(bad) {
            Some((ring, size)) => Err(OpenError::RingSize { ring, size }),
            None => Ok(()),
        }
    }
}

/// How to open a device.
#[derive(Clone, Debug)]
pub struct AfXdpConfig {
    /// The interface's name.
    pub interface: String,
    /// Where frames come from. Every cache passed to the queues is one of this pool.
    pub pool: Pool,
    /// The traffic taken from the device.
    pub share: Share,
    /// With [`Share::Ports`]: the first and the last of the ports that are taken in any case, of UDP and TCP, for
    /// connections that begin here.
    pub ephemeral: Option<(u16, u16)>,
    /// With [`Share::Ports`]: where ports and attachment outlive the process. What was left there is taken over without
    /// a gap; its ports are [held](weever_ebpf::xdp::PortTable::held). Their folder has been
    /// [made](Pins::prepare).
    pub pins: Option<Pins>,
    /// With [`Share::Ports`]: how long packets for the ports that find no socket are dropped from now on, unless
    /// [extended](weever_ebpf::xdp::PortTable::extend_lease).
    pub lease: Duration,
    /// Which queues.
    pub queues: Queues,
    /// How many sockets each device queue has: the link has so many queues for each of the device's,
    /// the first ones for the first. The sockets share fill and completion ring, and filters decide
    /// which of them gets a packet ([`Steering::classifier`](super::Steering::classifier)); at first it is the
    /// first one. 0 counts as 1.
    pub sockets_per_queue: u16,
    /// How many of these sockets' workers receive together what arrives at the first one. Can be changed
    /// later ([`AfXdp::threads`](super::AfXdp::threads)).
    pub threads_per_queue: u16,
    /// Whether these workers send in the order in which packets came. Can be changed later too.
    pub ordered: bool,
    /// Which of a device queue's sockets comes first among the link's: the first one, or, rotated, number
    /// *i* modulo their number for device queue *i*, so that the first ones are those of different workers.
    pub rotated: bool,
    /// Whether there is a [`classifier`](super::Steering::classifier) also with a single socket for
    /// each queue, for counting flows: a packet that no filter takes is for the queue on which it
    /// comes.
    pub classifies: bool,
    /// Ring sizes.
    pub rings: RingSizes,
    /// How many frames each queue lends its device before it is polled or told how many it may lend
    /// ([`limit_frames`](weever_link::LinkQueue::limit_frames)).
    pub lend_first: u32,
    /// Where the steering program runs.
    pub attach: Attach,
    /// Where partial checksums are completed.
    pub checksums: ChecksumOffload,
    /// Whether the device may read and write the frames itself, if it can.
    pub zero_copy: bool,
    /// How long to wait for a queue which is in use, or another XDP program, to go away: the
    /// kernel needs some milliseconds to forget a socket that was closed.
    pub patience: Duration,
}

impl AfXdpConfig {
    /// The whole device, every queue, as fast as it will go.
    pub fn new(interface: impl Into<String>, pool: Pool) -> AfXdpConfig {
        AfXdpConfig {
            interface: interface.into(),
            pool,
            share: Share::None,
            ephemeral: None,
            pins: None,
            lease: Duration::ZERO,
            queues: Queues::All,
            sockets_per_queue: 1,
            threads_per_queue: 1,
            ordered: false,
            rotated: false,
            classifies: false,
            rings: RingSizes::default(),
            lend_first: u32::MAX,
            attach: Attach::Auto,
            checksums: ChecksumOffload::default(),
            zero_copy: true,
            patience: Duration::from_secs(1),
        }
    }
}

/// The first release of each line of stable kernels in which the sockets of a queue lock the fill ring
/// together when they receive in generic mode (commit a1356ac7749c, "xsk: Fix race condition in AF_XDP
/// generic RX path", CVE-2025-37920). Lines that are not here and older than the last have no such release.
const SHARED_FILL_RINGS: [(u32, u32, u32); 5] =
    [(6, 1, 164), (6, 6, 123), (6, 12, 28), (6, 14, 6), (6, 15, 0)];

/// The running kernel's release, as `uname -r` has it.
pub(super) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether several sockets may share a fill ring in generic mode. Before the correction each locked only
/// its own side, so that packets on two cores took the same frame. That a distribution has corrected an
/// older release by itself cannot be seen.
pub(super) fn shares_fill_rings(release: &str) -> bool {
    let Some((major, minor, patch)) = version(release) else { return true };
    let line = SHARED_FILL_RINGS.iter().find(|line| (line.0, line.1) == (major, minor));
    let newest = SHARED_FILL_RINGS[SHARED_FILL_RINGS.len() - 1];
    line.map_or((major, minor) > (newest.0, newest.1), |line| patch >= line.2)
}

/// The numbers in front; `None` for a release that has none.
fn version(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((major, minor, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart() {
        for good in
            ["6.15.0-rc5", "6.15", "6.18.2", "7.0.0", "6.14.6", "6.12.28-generic", "6.6.123"]
        {
            assert!(shares_fill_rings(good), "{good}");
        }
        for bad in ["6.14.5", "6.13.12", "6.12.27", "6.6.90", "6.1.163", "5.15.0-91-generic", "6.5"]
        {
            assert!(!shares_fill_rings(bad), "{bad}");
        }
        assert!(shares_fill_rings("a kernel of my own"), "nothing is known of it");
    }

    #[test]
    fn the_running_kernel_says_its_release() {
        assert!(version(&release()).is_some(), "{}", release());
    }
}
