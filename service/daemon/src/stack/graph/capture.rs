//! Captures: blocks that are spliced into the running graph while a client captures, and the answers of a
//! capture: packets go to the client until it leaves.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use weever_blocks_std::capture::{Tap, TapConfig, Taps};
use weever_engine::{Publisher, monotonic};
use weever_graph::Predicate;
use weever_service_api::{
    Answers, ApiError, CaptureEnd, CaptureEvent, CaptureRequest, CaptureStarted, CapturedPacket,
    ErrorKind, MAX_SNAPLEN, Reply,
};
use weever_unicorn::predicate::parse;

use super::places::{self, Splices, refused};
use crate::stack::graph::program::Program;

/// The most captures at once: each has rings of its own.
const MOST: usize = 8;
/// The most places of one capture.
const MOST_PLACES: usize = 32;

/// The state shared by the captures of a stack.
#[derive(Debug)]
pub(in crate::stack) struct Captures {
    base: Base,
    links: Vec<String>,
    running: Arc<AtomicUsize>,
}

/// The objects that a capture needs until its end.
#[derive(Clone, Debug)]
struct Base {
    program: Arc<Mutex<Program>>,
    publisher: Arc<Publisher>,
    taps: Arc<Taps>,
}

impl Base {
    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Captures {
    pub(in crate::stack) fn new(
        program: Arc<Mutex<Program>>,
        publisher: Arc<Publisher>,
        taps: Arc<Taps>,
        links: Vec<String>,
    ) -> Captures {
        Captures { base: Base { program, publisher, taps }, links, running: Arc::default() }
    }

    /// Changes the graph so that packets are copied.
    pub(in crate::stack) fn begin(&self, wanted: &CaptureRequest) -> Result<Capture, ApiError> {
        let filter = filter(&wanted.filter)?;
        let permit = Permit::get(&self.running)?;
        let snaplen = wanted.snaplen.unwrap_or(MAX_SNAPLEN).min(MAX_SNAPLEN);
        let places = places::find(&self.base.program().untapped()?, &wanted.at)?;
        if places.len() > MOST_PLACES {
            let message = format!("{} places are more than a capture may have", places.len());
            return Err(refused(message, format!("name at most {MOST_PLACES}")));
        }
        let config = TapConfig {
            filter,
            snaplen: snaplen as usize,
            clock: Some(monotonic),
            ..TapConfig::default()
        };
        let tap = Arc::new(Tap::new(config));
        let number = self.base.taps.add(Arc::clone(&tap));
        let (ports, places) =
            places.into_iter().map(|place| ((place.node, place.port), place.shown)).unzip();
        let started = CaptureStarted { links: self.links.clone(), places, snaplen };
        // From here on, dropping it undoes the steps done so far.
        let (base, offset) = (self.base.clone(), calendar_offset());
        let capture = Capture { base, number, tap, started, offset, _permit: permit };
        let splices = Splices { tap: number, ports };
        let mut program = self.base.program();
        let changed = program.change(&self.base.publisher, |program| program.add_tap(splices));
        drop(program);
        changed.map_err(|error| ApiError {
            remedy: "choose other places; `weever graph show --running` lists them".into(),
            ..ApiError::from(error)
        })?;
        Ok(capture)
    }
}

fn filter(text: &str) -> Result<Predicate, ApiError> {
    if text.trim().is_empty() {
        return Ok(Predicate::True);
    }
    let predicate = parse(text).map_err(|e| {
        let help = e.help.unwrap_or_else(|| "use pcap-filter's syntax: `udp dst port 53`".into());
        refused(format!("capture: filter, at byte {}: {}", e.at, e.message), help)
    })?;
    match label(&predicate) {
        Some(label) => Err(refused(
            format!("capture: no field of a packet is called `{label}`"),
            "use pcap-filter's syntax: `udp dst port 53`",
        )),
        None => Ok(predicate),
    }
}

/// A label in the predicate, if there is one: its value is unknown here.
fn label(predicate: &Predicate) -> Option<&str> {
    match predicate {
        Predicate::Atom { label, .. } => Some(label),
        Predicate::Not(inner) => label(inner),
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().find_map(label),
        _ => None,
    }
}

/// A place among the captures that may run at once.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn get(running: &Arc<AtomicUsize>) -> Result<Permit, ApiError> {
        let more = |n: usize| (n < MOST).then_some(n + 1);
        match running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Permit(Arc::clone(running))),
            Err(_) => Err(ApiError::new(
                ErrorKind::Busy,
                format!("{MOST} captures go on already"),
                "end one of them and try again",
            )),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A capture. Dropping it takes its blocks out of the graph.
pub(in crate::stack) struct Capture {
    base: Base,
    number: u32,
    tap: Arc<Tap>,
    started: CaptureStarted,
    /// The calendar's lead over the worker's clock, in nanoseconds.
    offset: u64,
    _permit: Permit,
}

/// In nanoseconds: measurements of the offset differ by less, unless the calendar was set.
const OFFSET_TOLERANCE: u64 = 1_000_000;

/// How many nanoseconds the calendar is ahead of the worker's clock, modulo 2^64. The two clocks are
/// read one after the other, so the quickest of some readings is the best.
fn calendar_offset() -> u64 {
    let reading = |_| {
        let before = monotonic();
        let calendar = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = monotonic() - before;
        (took, (calendar.as_nanos() as u64).wrapping_sub(before + took / 2))
    };
    (0..3).map(reading).min().map_or(0, |(_, offset)| offset)
}

impl Capture {
    /// The packets that have come, at most `most` of each worker and place. Does not wait.
    fn collect(&mut self, most: usize) -> Vec<CapturedPacket> {
        let packets = self.tap.collect(most);
        if packets.is_empty() {
            return Vec::new();
        }
        // The same for every packet, so that none overtakes another, until the calendar is set anew.
        let current = calendar_offset();
        if (current.wrapping_sub(self.offset) as i64).unsigned_abs() > OFFSET_TOLERANCE {
            self.offset = current;
        }
        let offset = self.offset;
        let packet = |captured: weever_blocks_std::capture::Captured| CapturedPacket {
            place: captured.place,
            link: captured.link,
            time_ns: captured.time.wrapping_add(offset),
            length: captured.original,
            data: captured.data,
        };
        packets.into_iter().map(packet).collect()
    }

    /// Packets since the start that matched and found no room.
    fn missed(&self) -> u64 {
        self.tap.missed_so_far()
    }

    /// Whether the places are not in the graph any more.
    fn is_removed(&self) -> bool {
        self.tap.is_idle()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let mut program = self.base.program();
        // A worker that does not turn switches later; the graph of the program is without them.
        drop(program.change(&self.base.publisher, |program| program.remove_tap(self.number)));
        // If it was refused, the next change does it: no graph may name a capture that is gone.
        program.remove_tap(self.number);
        drop(program);
        self.base.taps.remove(self.number);
    }
}

/// The most packets of each worker and place that are sent at once.
const BATCH: usize = 256;
/// How long the loop waits for more packets, in milliseconds.
const PAUSE: u16 = 5;

/// The reply to `capture`: sends packets until the client leaves, asks for something else, or
/// has `count` packets.
pub(in crate::stack) fn reply(capture: Capture, count: Option<u64>) -> Reply<CaptureEvent> {
    let started = CaptureEvent::Started(capture.started.clone());
    let most = count.unwrap_or(u64::MAX);
    Reply::followed_by(started, move |answers| send_packets(answers, capture, most))
}

/// # Errors
/// When the client cannot be written to: it does not read, or is gone.
fn send_packets(
    mut answers: Answers<'_, CaptureEvent>,
    mut capture: Capture,
    most: u64,
) -> io::Result<()> {
    let mut end = CaptureEnd::default();
    let mut is_silent = false;
    loop {
        let removed = capture.is_removed();
        let packets = capture.collect(BATCH);
        let nothing = packets.is_empty();
        let left = usize::try_from(most - end.captured).unwrap_or(usize::MAX);
        for packet in packets.into_iter().take(left) {
            end.captured += 1;
            answers.push(&CaptureEvent::Packet(packet));
        }
        let missed = capture.missed();
        if missed != end.missed {
            end.missed = missed;
            answers.push(&CaptureEvent::Missed(missed));
        }
        let wait = if nothing { PAUSE } else { 0 };
        let reason = match wait_for_client(answers.stream(), &mut is_silent, wait)? {
            _ if end.captured >= most => "count",
            true => "request",
            false if removed && nothing => "removed",
            false => {
                answers.flush()?;
                continue;
            }
        };
        // The graph is as it was before when the client hears of the end.
        drop(capture);
        answers.push(&CaptureEvent::Ended(CaptureEnd { reason: reason.into(), ..end }));
        return answers.flush();
    }
}

/// Waits at most `milliseconds`; true if the client has left, or asks for something. `is_silent`: it
/// has closed its own direction, but may still read.
fn wait_for_client(
    client: &UnixStream,
    is_silent: &mut bool,
    milliseconds: u16,
) -> io::Result<bool> {
    let interest = if *is_silent { PollFlags::empty() } else { PollFlags::POLLIN };
    let mut fds = [PollFd::new(client.as_fd(), interest)];
    poll(&mut fds, PollTimeout::from(milliseconds))?;
    let found = fds[0].revents().unwrap_or(PollFlags::empty());
    if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
        return Ok(true);
    }
    if !found.contains(PollFlags::POLLIN) {
        return Ok(false);
    }
    let mut byte = [std::mem::MaybeUninit::uninit()];
    *is_silent = SockRef::from(client).peek(&mut byte)? == 0;
    Ok(!*is_silent)
}
