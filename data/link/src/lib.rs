//! A link is a device's set of queues (design/0000 §1).
//!
//! A [`Link`] is opened, described by its [`LinkInfo`], and taken apart into [`LinkQueue`]s, one
//! per device queue, each of which belongs to one worker. A worker's loop is then: `rx` into a
//! burst, run the graph, `tx` its results, `flush` once.
//!
//! Links know neither graphs nor protocols (design/0000 §3, rule 5).
//!
//! Beside the traits there are the links that need no device: [`memory`] joins two stacks,
//! [`replay`] feeds a benchmark, [`pcap::playback`] receives the packets of a capture file. Two
//! wrap any other link: [`fault`] makes it lossy, slow or narrow, [`trace`] shows its packets.
//! Every link has to pass [`conformance`].
#![forbid(unsafe_code)]

pub mod conformance;
pub mod fault;
pub mod memory;
pub mod pcap;
pub mod replay;
pub mod trace;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use weever_packet::{Buffer, Burst, Nanos, Pool, PoolCache};

/// Why a link failed. Trouble with a single packet is a counter in [`QueueStats`], not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The other side is gone for good: a device was removed, a peer dropped.
    #[error("link {link}: gone ({why})")]
    Gone {
        /// The link.
        link: String,
        /// The observation.
        why: String,
    },
    /// A system call failed in a way that trying again does not mend.
    #[error("link {link}: {what}: {source}")]
    Io {
        /// The link.
        link: String,
        /// The call.
        what: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
}

/// The properties of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Its name: the interface's, for a device.
    pub name: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Largest packet behind the link header, in bytes.
    pub mtu: u16,
    /// How many queues it has.
    pub queues: u16,
    /// Whether received transport checksums may be partial (veth, virtio, TAP; design/0000 §4.5).
    pub partial_checksums: bool,
    /// The work it does for sent packets.
    pub offload: Offload,
    /// How it was opened, in words for people: `AF_XDP native, copy mode`.
    pub mode: String,
}

/// Work on sent packets that a link takes off the stack. The stack has to have done the rest: a
/// link without an offload sends packets as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// It completes the TCP or UDP checksum of packets with
    /// [`Flags::PARTIAL_CHECKSUM`](weever_packet::Flags::PARTIAL_CHECKSUM), or hands them on as
    /// such to a peer that knows about it. Their checksum field holds the folded sum of the
    /// pseudo-header, not inverted.
    pub tx_checksum: bool,
    /// It cuts TCP segments and UDP datagrams with a
    /// [`segment`](weever_packet::Meta::segment) into packets of that many bytes. Such packets have
    /// a partial checksum.
    pub segmentation: bool,
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes that a VLAN tag adds to it.
const TAG: usize = 4;

/// Whether a frame can be sent over a link of that MTU: it has a whole Ethernet header, and no
/// more than `mtu` bytes behind it or behind its VLAN tag.
#[inline]
pub fn fits(frame: &[u8], mtu: u16) -> bool {
    let most = ETHERNET + mtu as usize;
    let tagged = || matches!(frame[12..ETHERNET], [0x81, 0x00] | [0x88, 0xa8]);
    frame.len() >= ETHERNET && (frame.len() <= most || frame.len() <= most + TAG && tagged())
}

/// Counters of one queue since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets given to the device.
    pub tx_packets: u64,
    /// Bytes given to the device.
    pub tx_bytes: u64,
    /// Packets the device dropped because we left it no room.
    pub rx_dropped: u64,
    /// Receive descriptors that were invalid.
    pub rx_invalid: u64,
    /// Packets that were to be received and cannot be: of a capture file those that were cut, of
    /// links other than Ethernet, or too long for the link or its frames.
    pub rx_unusable: u64,
    /// Packets that could not be sent: too long for the link, or refused by the device.
    pub tx_dropped: u64,
    /// Times the device found no free frame to put a packet in.
    pub fill_empty: u64,
    /// Packets that were copied on their way out, since their frames are not of the queue's pool.
    pub tx_copied: u64,
    /// Frames that came back from the device although it did not have them: twice, or never lent. They
    /// were not believed.
    pub bad_returns: u64,
}

/// How many frames of its [pool](LinkQueue::pool) a queue has at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Lent to the device to receive into.
    pub receive: u32,
    /// Of packets that are on their way out.
    pub send: u32,
}

/// How many frames a queue asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameNeed {
    /// With fewer it does not work.
    pub least: Frames,
    /// More are of no use to it.
    pub most: Frames,
}

/// One queue of a link. It belongs to one worker; nothing here blocks.
pub trait LinkQueue: Send {
    /// Receives packets into the burst, from slot 0 on, at most `max` (capped at 64), and returns
    /// how many. The burst is empty before. Metadata carries `l2`, `queue`, `flags`; the worker
    /// adds link and time. Frames for the device come from `pool`.
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError>;

    /// Takes packets from the front of `packets` as far as there is room, in order, and returns how
    /// many it took: those that cannot be sent are among them, freed and counted in
    /// [`QueueStats::tx_dropped`]; only [`QueueStats::tx_packets`] says how many the device was
    /// given. Packets that stay are held back, not lost. Frames that were sent come home to `pool`.
    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError>;

    /// Tells the device that there are packets to send. Once per turn of the worker's loop.
    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError>;

    /// Whether packets that [`tx`](Self::tx) took still wait for [`flush`](Self::flush), and it is
    /// worth while to call that soon.
    fn unsent(&self) -> bool;

    /// The pool that it receives into, and that packets are copied to on their way out if they come from
    /// elsewhere; `None`: it passes on the frames that it gets.
    fn pool(&self) -> Option<&Pool> {
        None
    }

    /// How many frames it asks for, for as long as it is open.
    fn frame_need(&self) -> FrameNeed {
        FrameNeed::default()
    }

    /// From now on it has no more frames than these. Before the first call it has as many as it
    /// [asks for](Self::frame_need), as far as the pool goes.
    fn limit_frames(&mut self, most: Frames) {
        let _it_has_none = most;
    }

    /// Whether packets not received now wait at their sender and are not lost: then the worker
    /// receives no more than the links can send on.
    fn holds_back(&self) -> bool {
        false
    }

    /// Whether packets may be received in an order in which they have to be sent, although others receive from
    /// the same device queue too, in their own workers. If those that [`rx`](Self::rx) has returned [have to](Self::has_turn),
    /// a worker sends what they caused when [`may_send`](Self::may_send) says so, and then calls [`sent`](Self::sent). Until
    /// then it calls `rx` of no queue that keeps order: two workers that wait for two queues could wait for each other. To
    /// call `rx` again counts as `sent`.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Whether packets of the last [`rx`](Self::rx) have a place in that order, and were not [`sent`](Self::sent) yet.
    /// Others, such as those that a filter sends to this worker alone, wait for nobody.
    fn has_turn(&self) -> bool {
        false
    }

    /// Whether packets received before those of the last [`rx`](Self::rx), by other workers, have been sent; or have been
    /// waited for long enough, which [`next_deadline`](Self::next_deadline) foretells.
    fn may_send(&mut self) -> bool {
        true
    }

    /// What the last [`rx`](Self::rx) has caused was sent, as far as it is ever sent.
    fn sent(&mut self) {}

    /// Sets the time, before the other calls of a turn. Links that depend on time (a delay, a rate,
    /// a replay) use it; until the first call their time is 0. Most devices ignore it.
    fn advance(&mut self, now: Nanos) {
        let _a_device_has_its_own = now;
    }

    /// When there will be something to receive, to flush or to lend although nothing else happens:
    /// a worker that sleeps has to [`advance`](Self::advance) the queue by then.
    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    /// Whether there was nothing to receive a moment ago, and nothing else to do that cannot wait a microsecond. A worker
    /// that polls asks this between two turns, so that it finds a packet sooner than by turns alone. A queue whose look
    /// costs as much as a turn says false.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Called before the worker sleeps on [`fd`](Self::fd): a queue whose other end needs to know
    /// says so to it. False when there is something to receive after all; then the worker does not
    /// sleep. [`end_sleep`](Self::end_sleep) follows in either case.
    fn prepare_to_sleep(&mut self) -> bool {
        true
    }

    /// Called when the worker is awake again.
    fn end_sleep(&mut self) {}

    /// The descriptor to wait on for received packets, if the link can be waited on.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// The queue's counters.
    fn stats(&self) -> QueueStats;
}

/// A device's set of queues.
pub trait Link: Send {
    /// The properties of its link.
    fn info(&self) -> &LinkInfo;

    /// The queues, in order; the first call takes them, later ones get none.
    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>>;
}

/// Takes all packets, counts them as sent, or as dropped if they are too long for the MTU, and frees
/// them: the `tx` of a queue that has no peer. Returns how many there were.
pub fn free_sent(
    mtu: u16,
    pool: &mut PoolCache,
    packets: &mut VecDeque<Buffer>,
    stats: &mut QueueStats,
) -> usize {
    let n = packets.len();
    // One by one: to drain them at once costs what several single ones do, and often there is one.
    while let Some(packet) = packets.pop_front() {
        if fits(packet.data(), mtu) {
            stats.tx_packets += 1;
            stats.tx_bytes += packet.len() as u64;
        } else {
            stats.tx_dropped += 1;
        }
        pool.free(packet);
    }
    n
}
