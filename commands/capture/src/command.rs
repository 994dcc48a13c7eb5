//! The command line, and the loop behind it until Ctrl-C, which ends it cleanly so that captured packets get into the file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use weever_commands_control::{CliError, Target};
use weever_service_api::{
    CaptureEvent, CaptureRequest, CaptureStarted, CapturedPacket, Client, ClientError, MAX_SNAPLEN,
};

use crate::file::PacketFile;
use crate::line;

/// The interval of checks for the end.
const LOOK: Duration = Duration::from_millis(100);

/// Shows packets of a running stack as they pass, or writes them to a capture file.
///
/// The kernel's tools do not see packets that the stack takes from a device: this shows them.
/// Packets are copied at places in the running graph, which is changed for the time of the capture
/// and carries on meanwhile. Copies for which there is no room are left out and counted; packets
/// themselves are neither lost nor held up.
#[derive(Args, Clone, Debug, Default)]
pub struct CaptureArgs {
    /// Which packets, in the syntax of pcap-filter, such as `udp port 53`; all without it
    filter: Vec<String>,
    /// Write packets to this file, in pcapng with the names of interfaces; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Where: `rx`, `tx`, or a port of the running graph as NODE.PORT; may be repeated. Without it,
    /// `rx` and `tx`
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    at: Vec<String>,
    /// End after this many packets
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Copy at most this many bytes of each packet
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SNAPLEN)))]
    snaplen: Option<u32>,
    #[command(flatten)]
    target: Target,
}

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The stack could not be asked, or refused.
    #[error(transparent)]
    Cli(#[from] CliError),
    /// The stack answered, but not that it captures.
    #[error(
        "the stack did not begin a capture, but answered {answer}; use a weever of its release"
    )]
    NotStarted {
        /// Its answer.
        answer: String,
    },
    /// The file could not be made or written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Nothing could be printed, or signals not be taken over.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl From<ClientError> for CaptureError {
    fn from(error: ClientError) -> CaptureError {
        CaptureError::Cli(error.into())
    }
}

/// How many packets there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    captured: u64,
    missed: u64,
}

impl CaptureArgs {
    /// Captures until it is interrupted, has `--count` packets, or the stack ends. Says on
    /// standard error where it looks, and at the end how many packets there were. To be called on
    /// the main thread before others are started, since signals are taken over for all of them.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CaptureError> {
        let mut client = self.target.connect()?;
        let ended = watch_for_interrupt();
        let ended =
            ended.map_err(|source| CaptureError::Io { what: "take over signals", source })?;
        let started = match client.call(&self.request())? {
            CaptureEvent::Started(started) => started,
            other => return Err(CaptureError::NotStarted { answer: format!("{other:?}") }),
        };
        announce(&started);
        let mut sink = Sink::new(self.write.as_ref(), out, &started)?;
        let mut tally = Tally::default();
        let pumped = pump(&mut client, &mut sink, &ended, &mut tally);
        // Packets captured before the stack went away are kept.
        sink.finish(tally.missed)?;
        say(&format!("{} packets captured, {} missed", tally.captured, tally.missed));
        pumped
    }

    fn request(&self) -> CaptureRequest {
        CaptureRequest {
            filter: self.filter.join(" "),
            at: self.at.clone(),
            count: self.count,
            snaplen: self.snaplen,
        }
    }
}

fn announce(started: &CaptureStarted) {
    let places: Vec<&str> = started.places.iter().map(|place| place.port.as_str()).collect();
    say(&format!("capturing at {}; Ctrl-C ends it", places.join(", ")));
}

/// On standard error, since packets may go to standard output. A reader that has gone away does not
/// end the capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn pump(
    client: &mut Client,
    sink: &mut Sink<'_>,
    ended: &AtomicBool,
    tally: &mut Tally,
) -> Result<(), CaptureError> {
    while !ended.load(Ordering::Relaxed) {
        match client.next_answer::<CaptureRequest>(LOOK)? {
            Some(CaptureEvent::Packet(packet)) => {
                tally.captured += 1;
                if !sink.put(&packet)? {
                    break;
                }
            }
            Some(CaptureEvent::Missed(missed)) => tally.missed = missed,
            Some(CaptureEvent::Ended(end)) => {
                tally.missed = end.missed;
                if end.reason == "removed" {
                    say("the places are not in the running graph any more");
                }
                break;
            }
            Some(_) => {}
            None => sink.flush()?,
        }
    }
    Ok(())
}

/// Where packets go.
enum Sink<'a> {
    File(Box<PacketFile>, PathBuf),
    Lines(&'a mut dyn Write, CaptureStarted),
}

impl<'a> Sink<'a> {
    fn new(
        file: Option<&PathBuf>,
        out: &'a mut dyn Write,
        started: &CaptureStarted,
    ) -> Result<Sink<'a>, CaptureError> {
        let Some(path) = file else { return Ok(Sink::Lines(out, started.clone())) };
        let made = PacketFile::create(path, started);
        let made = made.map_err(|source| CaptureError::File { path: path.clone(), source })?;
        Ok(Sink::File(Box::new(made), path.clone()))
    }

    /// False if nobody reads any more.
    fn put(&mut self, packet: &CapturedPacket) -> Result<bool, CaptureError> {
        match self {
            Sink::File(file, path) => file.write(packet).map(|()| true).or_else(|source| {
                gone(&source).then_some(false).ok_or_else(|| failed(path, source))
            }),
            Sink::Lines(out, started) => match writeln!(out, "{}", line(packet, started)) {
                Ok(()) => Ok(true),
                Err(source) if gone(&source) => Ok(false),
                Err(source) => Err(CaptureError::Io { what: "print a packet", source }),
            },
        }
    }

    fn flush(&mut self) -> Result<(), CaptureError> {
        match self {
            Sink::File(file, path) => file.flush().map_err(|source| failed(path, source)),
            Sink::Lines(out, _) => {
                drop(out.flush());
                Ok(())
            }
        }
    }

    fn finish(self, missed: u64) -> Result<(), CaptureError> {
        match self {
            Sink::File(file, path) => match file.finish(missed) {
                Err(source) if !gone(&source) => Err(failed(&path, source)),
                _ => Ok(()),
            },
            Sink::Lines(out, _) => {
                drop(out.flush());
                Ok(())
            }
        }
    }
}

fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn failed(path: &std::path::Path, source: io::Error) -> CaptureError {
    CaptureError::File { path: path.to_owned(), source }
}

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Whether somebody wants the capture to end. To be made before other threads are started.
fn watch_for_interrupt() -> io::Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let wanted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&wanted);
    let wait = move || {
        if signals.wait().is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
        if signals.wait().is_ok() {
            std::process::exit(INTERRUPTED);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(wanted)
}
