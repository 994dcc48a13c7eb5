//! The link's queue at one worker.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::Consumer;
use weever_app_ring::{ChannelError, Delivery, Kind, StackEnd};
use weever_link::{LinkError, LinkQueue, QueueStats};
use weever_net::demux::{Binding, Sharing, SocketRef};
use weever_packet::{Buffer, Burst, Flags, Nanos, Pool, PoolCache};

use crate::datagram::{Socket, fill, info_of, payload};
use crate::worker::{Command, SharedTable};

/// Commands that are carried out in one turn: opening thousands of sockets delays no packet by more
/// than this many insertions.
const COMMANDS_PER_TURN: usize = 256;
/// A channel without traffic for so many turns is looked at in every so many turns only.
const IDLE_AFTER: u32 = 256;
const IDLE_INTERVAL: u32 = 32;
/// An application queue's channel at this worker.
struct Channel {
    queue: u32,
    end: StackEnd,
    wake: OwnedFd,
    /// Turns since there was something.
    idle: u32,
    /// Deliveries or completions wait to be published.
    dirty: bool,
    /// The application broke the protocol; its queue is waiting to be closed.
    broken: bool,
}

/// One worker's queue of the link of applications.
pub struct AppLinkQueue {
    worker: u16,
    commands: Consumer<Command>,
    /// How many commands were carried out.
    done: Arc<AtomicU64>,
    /// Applications write to it when this worker sleeps.
    own_wake: Arc<OwnedFd>,
    table: SharedTable,
    large: Option<Pool>,
    channels: Vec<Channel>,
    place_of: HashMap<u32, usize>,
    sockets: HashMap<u32, Socket>,
    /// The channel that is asked first in the next turn.
    first: usize,
    turn: u32,
    /// A buffer that was allocated and not needed.
    spare: Option<Buffer>,
    stats: QueueStats,
}

impl AppLinkQueue {
    pub(crate) fn new(
        worker: u16,
        (commands, done): (Consumer<Command>, Arc<AtomicU64>),
        own_wake: Arc<OwnedFd>,
        table: SharedTable,
        large: Option<Pool>,
    ) -> AppLinkQueue {
        AppLinkQueue {
            worker,
            commands,
            done,
            own_wake,
            table,
            large,
            channels: Vec::new(),
            place_of: HashMap::new(),
            sockets: HashMap::new(),
            first: 0,
            turn: 0,
            spare: None,
            stats: QueueStats::default(),
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::AddQueue { queue, channel, wake } => {
                self.place_of.insert(queue, self.channels.len());
                let (idle, dirty, broken) = (0, false, false);
                self.channels.push(Channel { queue, end: *channel, wake, idle, dirty, broken });
            }
            Command::RemoveQueue { queue } => {
                let Some(place) = self.place_of.remove(&queue) else { return };
                self.channels.swap_remove(place);
                if let Some(moved) = self.channels.get(place) {
                    self.place_of.insert(moved.queue, place);
                }
            }
            Command::AddSocket { socket, queue, binding, sharing, peer, stats } => {
                self.add_socket(socket, Socket { queue, binding, peer, stats }, sharing);
            }
            Command::RemoveSocket { socket } => {
                let Some(there) = self.sockets.remove(&socket) else { return };
                let by = self.reference(socket);
                self.table.borrow_mut().remove(&there.binding, by);
            }
            Command::AddBinding { socket, binding } => self.add_binding(&binding, socket),
            Command::RemoveBinding { socket, binding } => {
                let by = self.reference(socket);
                self.table.borrow_mut().remove(&binding, by);
            }
        }
    }

    fn add_socket(&mut self, id: u32, socket: Socket, sharing: Sharing) {
        // The server has checked the limit, which is the same.
        let inserted = self.table.borrow_mut().insert(&socket.binding, self.reference(id), sharing);
        debug_assert!(inserted.is_ok());
        self.sockets.insert(id, socket);
    }

    /// Every member of a group receives its datagrams.
    fn add_binding(&mut self, binding: &Binding, socket: u32) {
        let by = self.reference(socket);
        let inserted = self.table.borrow_mut().insert(binding, by, Sharing::Latest);
        debug_assert!(inserted.is_ok());
    }

    fn reference(&self, id: u32) -> SocketRef {
        SocketRef { id, worker: self.worker }
    }

    /// Takes the next datagram of a channel into a buffer; nothing when it has none, or when there
    /// is no buffer for it.
    fn take(&mut self, place: usize, pool: &mut PoolCache) -> Result<Option<Buffer>, ChannelError> {
        loop {
            // The buffer first: a datagram that was taken off the ring cannot be put back.
            let Some(ordinary) = self.spare.take().or_else(|| pool.alloc()) else {
                return Ok(None);
            };
            let channel = &mut self.channels[place];
            let Some(transmit) = channel.end.next_transmit()? else {
                self.spare = Some(ordinary);
                return Ok(None);
            };
            channel.dirty = true;
            if transmit.kind != Kind::Data {
                // No transport serves streams yet.
                self.stats.rx_invalid += 1;
                channel.end.complete()?;
                self.spare = Some(ordinary);
                continue;
            }
            let socket = self.sockets.get(&transmit.socket).filter(|s| s.queue == channel.queue);
            let taken = match socket {
                Some(socket) => {
                    let large = self.large.as_ref();
                    let taken = fill(ordinary, large, pool, &channel.end, socket, &transmit);
                    match taken {
                        Ok(_) => socket.stats.count_sent(),
                        Err(_) => socket.stats.count_refused(),
                    }
                    taken
                }
                None => Err(ordinary),
            };
            channel.end.complete()?;
            match taken {
                Ok(buffer) => return Ok(Some(buffer)),
                Err(unused) => {
                    self.stats.rx_invalid += 1;
                    self.spare = Some(unused);
                }
            }
        }
    }

    fn receive_from(
        &mut self,
        place: usize,
        pool: &mut PoolCache,
        burst: &mut Burst,
        (mut slot, max): (usize, usize),
    ) -> usize {
        let start = slot;
        while slot < max {
            match self.take(place, pool) {
                Ok(Some(buffer)) => {
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += buffer.len() as u64;
                    burst.put(slot, buffer);
                    slot += 1;
                }
                Ok(None) => break,
                Err(_) => {
                    self.channels[place].broken = true;
                    break;
                }
            }
        }
        let channel = &mut self.channels[place];
        channel.idle = if slot > start { 0 } else { channel.idle.saturating_add(1) };
        slot
    }

    /// Hands a datagram to its socket's application.
    fn deliver(&mut self, packet: &Buffer) {
        let Some(socket) = self.sockets.get(&packet.meta().entry) else {
            // Closed between the lookup and now.
            self.stats.tx_dropped += 1;
            return;
        };
        let Some(channel) =
            self.place_of.get(&socket.queue).and_then(|place| self.channels.get_mut(*place))
        else {
            self.stats.tx_dropped += 1;
            return;
        };
        if channel.broken {
            self.stats.tx_dropped += 1;
            return;
        }
        let (payload, meta) = (payload(packet), packet.meta());
        if meta.flags.has(Flags::ERROR) {
            let what = (meta.vlan, meta.segment);
            let about = info_of(packet);
            let told = channel.end.notify(meta.entry, Kind::Error, what, Some(&about));
            match told {
                Ok(Delivery::Delivered) => {
                    channel.dirty = true;
                    socket.stats.count_error();
                }
                // The ring is full of datagrams: the application learns nothing that it reads.
                Ok(_) => socket.stats.count_ring_full(),
                Err(_) => channel.broken = true,
            }
            return;
        }
        let delivered = channel.end.deliver(meta.entry, &info_of(packet), payload);
        match delivered {
            Ok(Delivery::Delivered) => {
                channel.dirty = true;
                socket.stats.count_delivered();
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += payload.len() as u64;
                return;
            }
            Ok(Delivery::RingFull) => socket.stats.count_ring_full(),
            Ok(Delivery::NoFrame) => socket.stats.count_no_frame(),
            Err(_) => channel.broken = true,
        }
        self.stats.tx_dropped += 1;
    }
}

impl LinkQueue for AppLinkQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let count = self.channels.len();
        let max = max.min(weever_packet::BURST);
        let mut slot = 0;
        for i in 0..count {
            if slot >= max {
                break;
            }
            let place = (self.first + i) % count;
            let channel = &self.channels[place];
            // Idle channels take turns in being looked at.
            let rests = channel.idle >= IDLE_AFTER
                && !(self.turn.wrapping_add(place as u32)).is_multiple_of(IDLE_INTERVAL);
            if !rests && !channel.broken {
                slot = self.receive_from(place, pool, burst, (slot, max));
            }
        }
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        Ok(slot)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let count = packets.len();
        for packet in packets.drain(..) {
            self.deliver(&packet);
            pool.free(packet);
        }
        Ok(count)
    }

    fn flush(&mut self, _pool: &mut PoolCache) -> Result<(), LinkError> {
        for channel in &mut self.channels {
            if std::mem::take(&mut channel.dirty) && channel.end.publish() {
                // The only way to fail is a full counter: then it is readable already.
                let _ = rustix::io::write(&channel.wake, &1u64.to_ne_bytes());
            }
        }
        Ok(())
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn unsent(&self) -> bool {
        self.channels.iter().any(|channel| channel.dirty)
    }

    fn advance(&mut self, _now: Nanos) {
        self.turn = self.turn.wrapping_add(1);
        for _ in 0..COMMANDS_PER_TURN {
            let Ok(command) = self.commands.pop() else { break };
            self.carry_out(command);
            // One writer. Release: see `AppServer::settle`.
            self.done.store(self.done.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        let mut may_sleep = self.commands.is_empty();
        for channel in &mut self.channels {
            channel.idle = 0;
            match channel.end.park() {
                Ok(parked) => may_sleep &= parked,
                Err(_) => channel.broken = true,
            }
        }
        may_sleep
    }

    fn end_sleep(&mut self) {
        let mut count = [0; 8];
        // Empty when something else has woken the worker.
        let _ = rustix::io::read(&self.own_wake, &mut count);
        self.channels.iter_mut().for_each(|channel| channel.end.unpark());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.own_wake.as_fd())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}
