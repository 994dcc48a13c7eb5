//! Debugging aids: recordings, simulated faults, traces.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use weever_link::fault::{Faults, Rate};
use weever_wire::MacAddr;

/// The queue before a slow link, in bytes.
const QUEUE: u32 = 64_000;
/// The most packets that may overtake one.
const DEPTH: u32 = 8;

/// Layers around the links, for debugging.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aids {
    /// All packets on them are written to this file (pcapng).
    pub record: Option<PathBuf>,
    /// Faults injected on them, in both directions.
    pub faults: Option<FaultWords>,
    /// The station whose place the stack takes when it replays a capture file.
    pub station: Option<Station>,
}

/// A station in a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// By its hardware address.
    Mac(MacAddr),
    /// By an address that packets are to or from.
    Ip(IpAddr),
}

impl FromStr for Station {
    type Err = String;

    fn from_str(text: &str) -> Result<Station, String> {
        let mac = || text.parse().map(Station::Mac).ok();
        let ip = || text.parse().map(Station::Ip).ok();
        mac().or_else(ip).ok_or_else(|| "neither a MAC address nor an IP address".into())
    }
}

/// Faults as they are written: `loss=0.01,delay=5ms,rate=10M`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultWords(pub Faults);

impl FromStr for FaultWords {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultWords, String> {
        let mut faults = Faults::default();
        for word in text.split(',') {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "loss" => faults.loss = share(word, value)?,
                "corrupt" => faults.corrupt = share(word, value)?,
                "duplicate" => faults.duplicate = share(word, value)?,
                "reorder" => (faults.reorder, faults.reorder_depth) = (share(word, value)?, DEPTH),
                "delay" => faults.delay = time(word, value)?,
                "jitter" => faults.jitter = time(word, value)?,
                "longest" => {
                    faults.longest = value.parse().map_err(|_| format!("{word}: give bytes"))?;
                }
                "rate" => {
                    let (bits_per_second, queue) = (rate(word, value)?, QUEUE);
                    faults.rate = Rate { bits_per_second, burst: 0, queue };
                }
                _ => return Err(format!("{word}: {KEYS}")),
            }
        }
        Ok(FaultWords(faults))
    }
}

const KEYS: &str = "use loss, corrupt, duplicate or reorder with a share of the packets (0.01), \
                    delay or jitter with a time (5ms), rate with bits a second (10M), longest with \
                    bytes";

fn share(word: &str, value: &str) -> Result<f64, String> {
    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{word}: give a share of the packets from 0 to 1"))
}

fn time(word: &str, value: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let time = units.into_iter().find_map(|(unit, nanos)| {
        value.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(nanos)
    });
    time.ok_or_else(|| format!("{word}: give a time such as 5ms, 200us or 1s"))
}

fn rate(word: &str, value: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("", 1)];
    let rate = units.into_iter().find_map(|(unit, times)| {
        value.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(times)
    });
    rate.filter(|rate| *rate > 0).ok_or_else(|| format!("{word}: give bits a second such as 10M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_nonsense_is_named() {
        let FaultWords(faults) =
            "loss=0.01,delay=5ms,jitter=200us,rate=10M,reorder=0.5".parse().unwrap();
        assert_eq!((faults.loss, faults.delay, faults.jitter), (0.01, 5_000_000, 200_000));
        assert_eq!(faults.rate.bits_per_second, 10_000_000);
        assert_eq!((faults.reorder, faults.reorder_depth > 0), (0.5, true));
        for bad in ["", "loss", "loss=2", "loss=-1", "loss=NaN", "delay=5", "delay=99999999999s"] {
            let error = bad.parse::<FaultWords>().unwrap_err();
            assert!(error.starts_with(bad) && error.contains("give") || bad.is_empty(), "{error}");
        }
        assert!("rate=0".parse::<FaultWords>().is_err() && "los=1".parse::<FaultWords>().is_err());
    }
}
