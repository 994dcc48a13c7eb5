//! The link's queue at one worker.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use rtrb::Consumer;
use weever_app_ring::{ChannelError, Delivery, Kind, NumberMap};
use weever_link::{LinkError, LinkQueue, QueueStats};
use weever_net::demux::{Binding, Sharing, SocketRef};
use weever_packet::{Buffer, Burst, Endpoints, Flags, Nanos, Pool, PoolCache};

use crate::channels::{Channel, Channels};
use crate::datagram::{self, Socket, about};
use crate::passage::Mail;
use crate::stream::Listener;
use crate::streams::{Ends, SharedEnds, Streams};
use crate::worker::{Command, SharedTable};

/// Commands that are carried out in one turn: opening thousands of sockets delays no packet by more
/// than this many insertions.
const COMMANDS_PER_TURN: usize = 256;
/// A channel without traffic for so many turns is looked at in every so many turns only.
const IDLE_AFTER: u32 = 256;
const IDLE_INTERVAL: u32 = 32;
/// How long closing a datagram socket waits until the packets that were sent before it are taken. So a device that does
/// not send delays the commands behind it by no more than this.
const MOST_BEFORE_CLOSE: Nanos = 100_000_000;
/// IP protocol number of TCP.
const TCP: u8 = 6;

/// One worker's queue of the link of applications.
pub struct AppLinkQueue {
    worker: u16,
    commands: Consumer<Command>,
    /// A command that waits until a queue's entries before this place were taken.
    fenced: Option<(u32, u32, Command)>,
    /// When it began to wait.
    fenced_since: Nanos,
    /// How many commands were carried out.
    done: Arc<AtomicU64>,
    /// Messages of other workers about streams that move.
    mail: Receiver<Mail>,
    /// Applications write to it when this worker sleeps.
    own_wake: Arc<OwnedFd>,
    table: SharedTable,
    ends: SharedEnds,
    datagrams: Datagrams,
    /// The channel that is asked first in the next turn.
    first: usize,
    turn: u32,
}

/// The sockets, and the way of their datagrams between channels and buffers.
struct Datagrams {
    sockets: NumberMap<Socket>,
    /// For datagrams longer than an ordinary frame.
    large: Option<Pool>,
    /// A buffer that was allocated and not needed.
    spare: Option<Buffer>,
    stats: QueueStats,
}

impl AppLinkQueue {
    pub(crate) fn new(
        worker: u16,
        (commands, done): (Consumer<Command>, Arc<AtomicU64>),
        (own_wake, mail): (Arc<OwnedFd>, Receiver<Mail>),
        (table, ends): (SharedTable, SharedEnds),
        large: Option<Pool>,
    ) -> AppLinkQueue {
        AppLinkQueue {
            worker,
            commands,
            fenced: None,
            fenced_since: 0,
            done,
            mail,
            own_wake,
            table,
            ends,
            datagrams: Datagrams {
                sockets: NumberMap::default(),
                large,
                spare: None,
                stats: QueueStats::default(),
            },
            first: 0,
            turn: 0,
        }
    }

    /// The next command that can be carried out. One that takes streams or a datagram socket out of a queue waits until
    /// the worker has taken all entries that the application had published: what was sent before a close is sent.
    /// Closing a datagram socket waits for [`MOST_BEFORE_CLOSE`] at most. Commands behind one that waits wait, too.
    fn next_command(&mut self, now: Nanos) -> Option<Command> {
        let Ends { channels, streams } = &mut *self.ends.borrow_mut();
        let (queue, place, command) = match self.fenced.take() {
            Some((_, _, Command::AwaitTransport { turns })) => {
                if turns == 0 || streams.requests.is_empty() {
                    return Some(Command::AwaitTransport { turns });
                }
                self.fenced = Some((0, 0, Command::AwaitTransport { turns: turns - 1 }));
                return None;
            }
            Some(fenced) => fenced,
            None => {
                let command = self.commands.pop().ok()?;
                if matches!(command, Command::AwaitTransport { .. }) {
                    self.fenced = Some((0, 0, command));
                    return None;
                }
                let queue = match command {
                    Command::Share { from: queue, .. } | Command::RemoveQueue { queue } => queue,
                    Command::Claim { stream: (holder, number), .. } => {
                        streams.queue_of(holder, number).unwrap_or(0)
                    }
                    Command::RemoveSocket { socket } => {
                        self.datagrams.sockets.get(&socket).map_or(0, |socket| socket.queue)
                    }
                    _ => return Some(command),
                };
                let Some(channel) = channels.of(queue) else { return Some(command) };
                let Ok(place) = channel.end.published() else { return Some(command) };
                channel.idle = 0;
                self.fenced_since = now;
                (queue, place, command)
            }
        };
        let is_late = matches!(command, Command::RemoveSocket { .. })
            && now.saturating_sub(self.fenced_since) >= MOST_BEFORE_CLOSE;
        if is_late || channels.of(queue).is_none_or(|channel| channel.end.has_taken(place)) {
            return Some(command);
        }
        self.fenced = Some((queue, place, command));
        None
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            // It was waited for.
            Command::AwaitTransport { .. } => {}
            Command::AddQueue { queue, channel, exchange, wake } => {
                self.ends.borrow_mut().channels.add(queue, (*channel, exchange), wake);
            }
            Command::RemoveQueue { queue } => {
                let Ends { channels, streams } = &mut *self.ends.borrow_mut();
                streams.abandon(queue, channels);
                streams.own_ports.retain(|(of, _), _| *of != queue);
                channels.remove(queue);
            }
            Command::AddSocket { socket, queue, binding, sharing, stats } => {
                self.add_socket(socket, Socket { queue, binding, stats }, sharing);
            }
            Command::AddListener { socket, queue, binding, backlog, accepts_each, serves } => {
                let number = socket;
                let listener = Listener { queue, number, accepts_each, serves, backlog };
                self.ends.borrow_mut().streams.listen(listener, binding);
            }
            Command::Serve { socket, serves } => {
                self.ends.borrow_mut().streams.serve(socket, serves);
            }
            Command::Share { from, to, only } => {
                self.ends.borrow_mut().streams.share(from, to, only);
            }
            Command::Release { holder, only } => {
                self.ends.borrow_mut().streams.release(holder, only);
            }
            Command::Claim { stream, queue, to } => {
                let Ends { channels, streams } = &mut *self.ends.borrow_mut();
                if let Some(claimed) = streams.claim(stream, queue, channels) {
                    // Both queues are told before the answer is sent, since their processes may
                    // communicate.
                    streams.tell_untold(channels);
                    channels.publish();
                    // An application that did not wait for the answer has closed its queue.
                    let _ = to.send(claimed);
                }
            }
            Command::RemoveSocket { socket } => {
                let Some(there) = self.datagrams.sockets.remove(&socket) else {
                    self.ends.borrow_mut().streams.stop_listening(socket);
                    return;
                };
                let by = self.reference(socket);
                self.table.borrow_mut().remove(&there.binding, by);
            }
            Command::Report { most, to } => self.ends.borrow_mut().streams.report(most, to),
            Command::SharePorts { range } => self.ends.borrow_mut().streams.range = Some(range),
            Command::AllowPort { queue, port } => {
                self.ends.borrow_mut().streams.own_ports.insert((queue, port), 0);
            }
            Command::ForbidPort { queue, port } => {
                self.ends.borrow_mut().streams.own_ports.remove(&(queue, port));
            }
            Command::FindPorts { ports, to } => {
                // It waits for the answer, unless this worker was late.
                let _ = to.send(self.ends.borrow().streams.find_ports(&ports));
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
        self.datagrams.sockets.insert(id, socket);
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
}

impl Datagrams {
    /// Takes the next datagram of a channel into a buffer; nothing when it has none, or when there
    /// is no buffer for it. Requests of streams on the way are handed on.
    fn take(
        &mut self,
        channel: &mut Channel,
        streams: &mut Streams,
        pool: &mut PoolCache,
    ) -> Result<Option<Buffer>, ChannelError> {
        loop {
            if !channel.end.has_transmit()? {
                channel.dirty |= channel.end.owes();
                return Ok(None);
            }
            // The buffer first: a datagram that was taken off the ring cannot be put back.
            let Some(ordinary) = self.spare.take().or_else(|| pool.alloc()) else {
                return Ok(None);
            };
            let Some(transmit) = channel.end.next_transmit()? else {
                self.spare = Some(ordinary);
                channel.dirty |= channel.end.owes();
                return Ok(None);
            };
            channel.dirty = true;
            if transmit.kind != Kind::Data {
                self.spare = Some(ordinary);
                let sensible = streams.take(channel, &transmit)?;
                self.stats.rx_invalid += u64::from(!sensible);
                continue;
            }
            let socket = self.sockets.get(&transmit.socket).filter(|s| s.queue == channel.queue);
            let taken = match socket {
                Some(socket) => {
                    let large = self.large.as_ref();
                    let taken = datagram::take(ordinary, large, pool, channel, socket, &transmit)?;
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
        channel: &mut Channel,
        streams: &mut Streams,
        pool: &mut PoolCache,
        burst: &mut Burst,
        (mut slot, max): (usize, usize),
    ) -> usize {
        let start = slot;
        while slot < max {
            match self.take(channel, streams, pool) {
                Ok(Some(buffer)) => {
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += buffer.len() as u64;
                    burst.put(slot, buffer);
                    slot += 1;
                }
                Ok(None) => break,
                Err(_) => {
                    channel.broken = true;
                    break;
                }
            }
        }
        channel.idle = if slot > start { 0 } else { channel.idle.saturating_add(1) };
        slot
    }

    /// A packet without octets that wakes the transport.
    fn wake_transport(&mut self, pool: &mut PoolCache) -> Option<Buffer> {
        let mut packet = self.spare.take().or_else(|| pool.alloc())?;
        packet.clear();
        let meta = packet.meta_mut();
        meta.endpoints = Endpoints { protocol: TCP, ..Endpoints::default() };
        meta.flags = meta.flags.with(Flags::ENDPOINTS);
        Some(packet)
    }

    /// Hands a datagram to its socket's application.
    fn deliver(&mut self, channels: &mut Channels, pool: &mut PoolCache, packet: Buffer) {
        let Some(socket) = self.sockets.get(&packet.meta().entry) else {
            // Closed between the lookup and now.
            self.stats.tx_dropped += 1;
            return pool.free(packet);
        };
        let Some(channel) = channels.of(socket.queue) else {
            self.stats.tx_dropped += 1;
            return pool.free(packet);
        };
        let meta = packet.meta();
        if meta.flags.has(Flags::ERROR) {
            let what = (meta.vlan, meta.segment);
            let about = about(&packet);
            let told = channel.end.notify(meta.entry, Kind::Error, what, Some(about));
            match told {
                Ok(Delivery::Delivered) => {
                    channel.dirty = true;
                    socket.stats.count_error();
                }
                // The ring is full of datagrams: the application learns nothing that it reads.
                Ok(_) => socket.stats.count_ring_full(),
                Err(_) => channel.broken = true,
            }
            return pool.free(packet);
        }
        let len = u64::from(meta.end.saturating_sub(meta.l4));
        match datagram::deliver(packet, pool, channel) {
            Ok(Delivery::Delivered) => {
                channel.note_delivery(true);
                socket.stats.count_delivered();
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += len;
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
        let Ends { channels, streams } = &mut *self.ends.borrow_mut();
        let count = channels.all().len();
        let max = max.min(weever_packet::BURST);
        let mut slot = 0;
        if self.first >= count {
            self.first = 0;
        }
        for i in 0..count {
            if slot >= max {
                break;
            }
            let place = self.first + i;
            let place = if place < count { place } else { place - count };
            let channel = &mut channels.all()[place];
            // Idle channels take turns in being looked at.
            let rests = channel.idle >= IDLE_AFTER
                && !(self.turn.wrapping_add(place as u32)).is_multiple_of(IDLE_INTERVAL);
            if !rests && !channel.broken {
                slot = self.datagrams.receive_from(channel, streams, pool, burst, (slot, max));
            }
        }
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        if slot < max
            && streams.is_wanted(channels)
            && let Some(packet) = self.datagrams.wake_transport(pool)
        {
            burst.put(slot, packet);
            slot += 1;
        }
        Ok(slot)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let count = packets.len();
        let channels = &mut self.ends.borrow_mut().channels;
        for packet in packets.drain(..) {
            self.datagrams.deliver(channels, pool, packet);
        }
        Ok(count)
    }

    fn flush(&mut self, _pool: &mut PoolCache) -> Result<(), LinkError> {
        let Ends { channels, streams } = &mut *self.ends.borrow_mut();
        streams.give_back(channels);
        streams.tell_untold(channels);
        channels.publish();
        Ok(())
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn unsent(&self) -> bool {
        let Ends { channels, streams } = &mut *self.ends.borrow_mut();
        streams.has_unsaid() || channels.all().iter().any(|channel| channel.dirty)
    }

    fn advance(&mut self, now: Nanos) {
        self.turn = self.turn.wrapping_add(1);
        if let Ok(first) = self.mail.try_recv() {
            let streams = &mut self.ends.borrow_mut().streams;
            streams.receive(first);
            self.mail.try_iter().for_each(|mail| streams.receive(mail));
        }
        for _ in 0..COMMANDS_PER_TURN {
            let Some(command) = self.next_command(now) else { break };
            self.carry_out(command);
            // One writer. Release: see `AppServer::settle`.
            self.done.store(self.done.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        let Ends { channels, streams } = &mut *self.ends.borrow_mut();
        let idle = self.commands.is_empty() && self.fenced.is_none();
        let mut may_sleep = idle && streams.may_sleep();
        for channel in channels.all() {
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
        let channels = &mut self.ends.borrow_mut().channels;
        channels.all().iter_mut().for_each(|channel| channel.end.unpark());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.own_wake.as_fd())
    }

    fn stats(&self) -> QueueStats {
        self.datagrams.stats
    }
}
