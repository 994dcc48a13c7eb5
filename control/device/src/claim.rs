//! One process steers a device at a time.
//!
//! A [`Claim`] is an abstract Unix socket with the interface's number in its name. The kernel keeps
//! such names by network namespace, as it does interfaces; it gives a name to one socket only, and
//! frees the name when the process ends, however that happens. A lock in the file system does none of
//! the three: processes that share a network may have folders of their own, a number may come again in
//! another namespace, and the remains of a killed process have to be interpreted. A second socket names
//! the holder of the first, for [`holder`] to read in `/proc`.
//!
//! Any process of the namespace may take any name: a claim keeps well-meaning processes apart, and is
//! no protection.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The sockets of the calling thread's network namespace, a line each.
const SOCKETS: &str = "/proc/thread-self/net/unix";
/// The rest of a longer text is not read.
const LONGEST: u64 = 16 << 20;
/// A name may have 107 bytes in all.
const LONGEST_WORDS: usize = 64;

/// A device that this process steers, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Claim {
    _name: UnixDatagram,
    /// A process that cannot give its name holds the device nevertheless.
    _label: Option<UnixDatagram>,
}

/// The process that steers a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimHolder {
    /// The process's own number: in a container it may be another one outside.
    pub pid: u32,
    /// Its purpose, in a few words.
    pub what: String,
}

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.what)
    }
}

/// Why a device cannot be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another process has it.
    #[error(
        "{device} is steered already, by {holder}; two would undo each other's work, so end that \
         first: `kill -INT {pid}`", pid = holder.pid
    )]
    Held {
        /// The device.
        device: String,
        /// The process that has it.
        holder: ClaimHolder,
    },
    /// An unknown process has it.
    #[error(
        "{device} is steered already; `ss -xap src '@{name}'` shows by which process: end that first"
    )]
    HeldInSecret {
        /// The device.
        device: String,
        /// The name of the socket.
        name: String,
    },
    /// The system refused.
    #[error("{device} cannot be claimed: {source}")]
    System {
        /// The device.
        device: String,
        /// The system's word.
        source: io::Error,
    },
}

impl Claim {
    /// Claims an interface of the calling thread's network namespace; `what` is the purpose, in a few
    /// words. Does not wait.
    ///
    /// # Errors
    /// [`ClaimError::Held`] names the process that has it.
    pub fn of(device: &str, ifindex: u32, what: &str) -> Result<Claim, ClaimError> {
        let name = name(ifindex);
        match bind(&name) {
            Ok(bound) => {
                let words: String = what.chars().filter(|c| matches!(c, ' '..='~')).collect();
                let words = &words[..words.len().min(LONGEST_WORDS)];
                let label = bind(&format!("{name}/{} {words}", std::process::id())).ok();
                Ok(Claim { _name: bound, _label: label })
            }
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                let device = device.to_owned();
                Err(match holder(ifindex) {
                    Some(holder) => ClaimError::Held { device, holder },
                    None => ClaimError::HeldInSecret { device, name },
                })
            }
            Err(source) => Err(ClaimError::System { device: device.to_owned(), source }),
        }
    }
}

/// The process that steers an interface of the calling thread's network namespace, if one claims it.
pub fn holder(ifindex: u32) -> Option<ClaimHolder> {
    let mut text = Vec::new();
    File::open(SOCKETS).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
    let label = format!("@{}/", name(ifindex));
    String::from_utf8_lossy(&text).lines().find_map(|line| parse(line.split_once(&label)?.1))
}

/// `1234 purpose`, without control characters: any process may have written it.
fn parse(label: &str) -> Option<ClaimHolder> {
    let (pid, what) = label.split_once(' ')?;
    let what = what.chars().filter(|c| !c.is_control()).collect();
    Some(ClaimHolder { pid: pid.parse().ok()?, what })
}

fn name(ifindex: u32) -> String {
    format!("weever/device/{ifindex}")
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that no interface of this machine has.
    const FREE: u32 = 0x7fff_0000;

    #[test]
    fn a_device_is_had_by_one_who_is_named_and_free_again_when_it_is_dropped() {
        let ifindex = FREE + 1;
        assert_eq!(holder(ifindex), None);
        let claim = Claim::of("eth0", ifindex, "`weever steer`,\n by filters").unwrap();
        let error = Claim::of("eth0", ifindex, "other").unwrap_err();
        let ClaimError::Held { holder: named, .. } = &error else { panic!("{error}") };
        let what = "`weever steer`, by filters".to_string();
        assert_eq!(*named, ClaimHolder { pid: std::process::id(), what });
        let text = error.to_string();
        assert!(text.contains("eth0 is steered already, by process") && text.contains("kill -INT"));
        let other = Claim::of("eth1", ifindex + 1, "other").unwrap();
        drop((claim, other));
        assert_eq!(holder(ifindex), None);
        Claim::of("eth0", ifindex, "again").unwrap();
    }

    #[test]
    fn whoever_holds_it_without_a_word_is_told_how_to_be_found() {
        let ifindex = FREE + 3;
        let silent = bind(&name(ifindex)).unwrap();
        let error = Claim::of("eth0", ifindex, "").unwrap_err().to_string();
        assert!(error.contains(&format!("@weever/device/{ifindex}'")), "{error}");
        let liar = bind(&format!("{}/many words", name(ifindex))).unwrap();
        assert!(Claim::of("eth0", ifindex, "").is_err(), "no number is no answer");
        drop((silent, liar));
    }

    #[test]
    fn words_of_any_length_and_script_are_taken() {
        let ifindex = FREE + 5;
        let claim = Claim::of("eth0", ifindex, &"wörter ".repeat(100)).unwrap();
        assert!(holder(ifindex).is_some_and(|holder| holder.what.starts_with("wrter wrter")));
        drop(claim);
    }
}
