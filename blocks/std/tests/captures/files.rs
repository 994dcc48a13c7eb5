//! From capture files to packets.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use weever_link::pcap::Reader;

use super::frames::{Captured, renderings};
use super::hosts::Hosts;

/// The files below a folder, in the order of their names.
pub(crate) fn found_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// The totals of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Captures.
    pub(crate) files: u64,
    /// Captures that could not be read to their end.
    pub(crate) broken: u64,
    /// Their packets.
    pub(crate) packets: u64,
    /// The frames made of these packets.
    pub(crate) frames: u64,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay { files, broken, packets, frames } = self;
        write!(f, "{packets} packets of {files} captures ({broken} cut off or malformed) ")?;
        write!(f, "replayed as {frames} frames")
    }
}

impl Replay {
    /// Replays a capture; a file that is none is left out.
    pub(crate) fn file(&mut self, path: &Path, hosts: &mut Hosts) {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let Ok(mut reader) = Reader::new(BufReader::new(file)) else { return };
        self.files += 1;
        let mut place = PacketName { path, packet: 0 };
        loop {
            place.packet += 1;
            let captured = match reader.read() {
                Ok(Some(record)) => (record.interface, record.data.to_vec()),
                Ok(None) => break,
                Err(_) => {
                    self.broken += 1;
                    break;
                }
            };
            let (interface, data) = captured;
            let link_type = reader.interfaces()[interface as usize].link_type;
            let frames = renderings(&Captured { link_type, data });
            self.packets += 1;
            self.frames += hosts.receive(&frames);
        }
        hosts.pass_time();
    }
}

/// Says which packet it was when a test fails.
struct PacketName<'a> {
    path: &'a Path,
    packet: u64,
}

impl Drop for PacketName<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("at packet {} of {}", self.packet, self.path.display());
        }
    }
}
