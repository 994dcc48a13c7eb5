//! The two ends of a verification: one asks for frames, the other sends them.
//!
//! They talk over a TCP connection of the kernel's, a JSON object a line: the sender's first words are
//! `{"prober": 1}`; then it gets `{"frame": "hexadecimal", "count": 400}` and answers `{"sent": 400}` or
//! `{"error": "why"}`. The end of the connection is the end of the work.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use weever_link_sys::packet::{PacketSocket, Protocol};

use super::frame::{SENDER, SERVICE_TAG, TAG};
use crate::SteerError;

/// A sender whose answer takes longer is gone.
const SILENCE: Duration = Duration::from_secs(120);
/// A connection has to greet within this time.
const GREETING: Duration = Duration::from_secs(5);
/// What a sender says first: the version of the exchange.
const PROBER: u64 = 1;
/// The pause between two looks whether to end while the other end is silent.
const LOOK: Duration = Duration::from_millis(100);
/// Seconds of silence after which it is asked whether the other end's host is there.
const KEEP_ALIVE: u32 = 60;
/// No line is longer.
const LINE: usize = 16 << 10;
/// No probe has more frames.
const MOST: u64 = 1000;
/// Lengths of frames without their check.
const LENGTHS: RangeInclusive<usize> = 60..=1514;
/// More of the peer's words are not shown.
const WORDS: usize = 200;

/// Something that sends frames to the device.
pub(crate) trait Prober {
    /// Sends a frame so often; false if `ends` said so before.
    fn send(
        &mut self,
        frame: &[u8],
        count: u32,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool, SteerError>;
}

/// A peer that was started with `--probe-from`.
pub(crate) struct Peer(BufReader<TcpStream>);

impl Peer {
    /// Waits for the peer: the first that connects and says that it is one. `ready` is called with the address once one
    /// can connect.
    pub(crate) fn accept(
        at: SocketAddr,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<Peer, SteerError> {
        let failed = |error| SteerError::Peer(format!("cannot listen at {at}: {error}"));
        let listener = TcpListener::bind(at).map_err(failed)?;
        ready(listener.local_addr().map_err(failed)?);
        loop {
            let (stream, _) = listener.accept().map_err(failed)?;
            stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
            let mut stream = BufReader::new(stream);
            if let Ok(Heard::Value(said)) = hear(&mut stream, Some(GREETING), &|| false)
                && said["prober"] == PROBER
            {
                return Ok(Peer(stream));
            }
        }
    }
}

impl Prober for Peer {
    fn send(
        &mut self,
        frame: &[u8],
        count: u32,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool, SteerError> {
        let frame: String = frame.iter().map(|octet| format!("{octet:02x}")).collect();
        say(self.0.get_mut(), &json!({ "frame": frame, "count": count }))?;
        let answer = match hear(&mut self.0, Some(SILENCE), ends)? {
            Heard::Value(answer) => answer,
            Heard::Interrupted => return Ok(false),
            Heard::End => {
                return Err(SteerError::Peer("the peer has ended the connection".into()));
            }
        };
        match (answer["sent"].as_u64(), answer["error"].as_str()) {
            (Some(sent), _) if sent == u64::from(count) => Ok(true),
            (_, Some(error)) => {
                Err(SteerError::Peer(format!("the peer cannot send: {}", shown(error))))
            }
            _ => {
                let answer = shown(&answer.to_string());
                Err(SteerError::Peer(format!("the peer's answer makes no sense: {answer}")))
            }
        }
    }
}

/// Sends from a device what the other end asks for, until that closes the connection.
pub(crate) fn serve(device: &str, to: SocketAddr) -> Result<(), SteerError> {
    let failed = |error: &dyn std::fmt::Display| SteerError::Peer(error.to_string());
    // It is only for sending: no frame has this type.
    let socket = PacketSocket::open(device, Protocol::EtherType(0)).map_err(|e| failed(&e))?;
    let stream = TcpStream::connect(to)
        .map_err(|e| SteerError::Peer(format!("nobody verifies at {to}: {e}")))?;
    // The other end may say nothing for long, but its host must be there.
    setsockopt(&stream, sockopt::KeepAlive, &true)
        .and_then(|()| setsockopt(&stream, sockopt::TcpKeepIdle, &KEEP_ALIVE))
        .map_err(|e| failed(&e))?;
    let mut stream = BufReader::new(stream);
    say(stream.get_mut(), &json!({ "prober": PROBER }))?;
    let mut station = None;
    while let Heard::Value(asked) = hear(&mut stream, None, &|| false)? {
        let Some((frame, count)) = probe(&asked).filter(|(frame, _)| is_probe(frame, &mut station))
        else {
            say(stream.get_mut(), &json!({ "error": "that is no probe" }))?;
            let why = format!("{to} asked for frames that are no probes; none of them was sent");
            return Err(SteerError::Peer(why));
        };
        let answer = match (0..count).try_for_each(|_| socket.send(&frame)) {
            Ok(()) => json!({ "sent": count }),
            Err(error) => json!({ "error": format!("{device}: {error}") }),
        };
        say(stream.get_mut(), &answer)?;
    }
    Ok(())
}

/// Whether it is a frame as [`super::Frame::octets`] makes them. `station` is the one destination of all, which the first
/// frame decides.
pub(super) fn is_probe(frame: &[u8], station: &mut Option<[u8; 6]>) -> bool {
    let Some(to) = frame.first_chunk::<6>().filter(|_| LENGTHS.contains(&frame.len())) else {
        return false;
    };
    let kind_at = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let is_tag = |kind| kind == TAG || kind == SERVICE_TAG;
    let tags = (0..2).take_while(|tag| is_tag(kind_at(12 + 4 * tag))).count();
    let is_unicast = to[0] & 1 == 0 && *to != [0; 6];
    is_unicast
        && frame[6..12] == SENDER
        && [0x0800, 0x86dd].contains(&kind_at(12 + 4 * tags))
        && *station.get_or_insert(*to) == *to
}

/// The peer's words for a terminal.
pub(super) fn shown(words: &str) -> String {
    let start: String = words.chars().take(WORDS).collect();
    format!("{start:?}")
}

pub(super) fn probe(asked: &Value) -> Option<(Vec<u8>, u64)> {
    let text = asked["frame"].as_str()?;
    let count = asked["count"].as_u64().filter(|count| *count <= MOST)?;
    let octet = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let frame: Option<Vec<u8>> = (0..text.len()).step_by(2).map(octet).collect();
    Some((frame?, count))
}

fn say(stream: &mut TcpStream, value: &Value) -> Result<(), SteerError> {
    let line = format!("{value}\n");
    let said = stream.write_all(line.as_bytes());
    said.map_err(|error| SteerError::Peer(format!("the connection is broken: {error}")))
}

/// What came from the other end.
enum Heard {
    Value(Value),
    /// It has closed the connection.
    End,
    /// `ends` said so before a line was there.
    Interrupted,
}

/// Waits for a line, for so long at most. It asks `ends` whenever something has come, or a read has timed out.
fn hear(
    stream: &mut BufReader<TcpStream>,
    patience: Option<Duration>,
    ends: &dyn Fn() -> bool,
) -> Result<Heard, SteerError> {
    let (start, mut line) = (Instant::now(), Vec::new());
    loop {
        match read_on(stream, &mut line) {
            Ok(true) => break,
            Err(error) if !is_passing(&error) => {
                return Err(SteerError::Peer(format!("the connection is broken: {error}")));
            }
            _ => {}
        }
        if ends() {
            return Ok(Heard::Interrupted);
        }
        if let Some(patience) = patience.filter(|patience| start.elapsed() > *patience) {
            let why = format!("the other end has said nothing for {} s", patience.as_secs());
            return Err(SteerError::Peer(why));
        }
    }
    if line.is_empty() {
        return Ok(Heard::End);
    }
    let value = serde_json::from_slice(&line).map(Heard::Value);
    value.map_err(|_| SteerError::Peer("the other end is no `weever steer`".into()))
}

/// Reads more of a line; says whether it is over, or too long.
fn read_on(stream: &mut BufReader<TcpStream>, line: &mut Vec<u8>) -> io::Result<bool> {
    let octets = stream.fill_buf()?;
    let end = octets.iter().position(|octet| *octet == b'\n');
    let read = end.map_or(octets.len(), |at| at + 1);
    line.extend_from_slice(&octets[..read]);
    stream.consume(read);
    Ok(end.is_some() || read == 0 || line.len() > LINE)
}

/// Whether a read may be tried again.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
