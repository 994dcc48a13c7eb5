//! Values as text: whether a setting takes them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use weever_net::demux::PortRange;
use weever_service_api::settings::Kind;
use weever_suggest::did_you_mean;
use weever_wire::MacAddr;

use super::{NicChoice, Prefix};

/// Cores as they are written: one, or a range with both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores(pub(super) Vec<usize>);

/// No machine has more; a range beyond is a mistake, and its list would fill the memory.
const MOST_CORES: usize = 1 << 16;

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok().filter(|core| *core < MOST_CORES);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Cores((first..=last).collect())),
            (Some(first), Some(last)) => {
                Err(format!("the range runs backwards; write {last}-{first}"))
            }
            _ => Err(format!("it is not a core; give {}", Kind::Cores)),
        }
    }
}

/// A range of ports as it is written, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports(pub(super) PortRange);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let ends = text.split_once('-').and_then(|(first, last)| {
            Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
        });
        match ends {
            Some((0, _)) => Err("port 0 is none; begin with 1024 or more".into()),
            Some((first, last)) if first > last => {
                Err(format!("the range runs backwards; write {last}-{first}"))
            }
            Some((first, last)) => Ok(Ports(PortRange { first, last })),
            None => Err(format!("it is no range of ports; give {}", Kind::Ports)),
        }
    }
}

/// Checks that settings of this kind take `text`.
///
/// # Errors
/// The mistake and what to write, as `PROBLEM; REMEDY`.
pub(super) fn check(kind: Kind, text: &str) -> Result<(), String> {
    let needed = |problem: &str| Err(format!("{problem}; give {kind}"));
    let is = |good: bool, problem: &str| if good { Ok(()) } else { needed(problem) };
    match kind {
        Kind::Switch => is(text.parse::<bool>().is_ok(), "it is neither true nor false"),
        Kind::Number(least, most, _) => match text.parse::<i128>() {
            Err(_) => needed("it is not a number"),
            Ok(number) if number < i128::from(least) => needed("it is too small"),
            Ok(number) if number > i128::from(most) => needed("it is too large"),
            Ok(_) => Ok(()),
        },
        Kind::Word(words) => {
            let known = || words.iter().map(|(word, _)| *word);
            if known().any(|word| word == text) {
                return Ok(());
            }
            let hint = did_you_mean(text, known());
            Err(format!("there is no such word; {}", hint.unwrap_or(format!("use {kind}"))))
        }
        Kind::Name | Kind::Path => is(!text.is_empty(), "it is empty"),
        Kind::Address => is(text.parse::<IpAddr>().is_ok(), "it is not an address"),
        Kind::Prefix if text.parse::<IpAddr>().is_ok() => {
            let length = if text.contains(':') { 64 } else { 24 };
            Err(format!("the length of its network's prefix is missing; write {text}/{length}"))
        }
        Kind::Prefix => {
            is(text.parse::<Prefix>().is_ok(), "it is not an address with a prefix length")
        }
        Kind::Endpoint if text.parse::<u16>().is_ok() => Err(format!(
            "it is a port without an address; write 127.0.0.1:{text} for this host only, or \
             0.0.0.0:{text}"
        )),
        Kind::Endpoint => {
            is(text.parse::<SocketAddr>().is_ok(), "it is not an address with a port")
        }
        Kind::Mac => is(text.parse::<MacAddr>().is_ok(), "it is not an Ethernet address"),
        Kind::Cores => text.parse::<Cores>().map(drop),
        Kind::Ports => text.parse::<Ports>().map(drop),
        Kind::Nic => text.parse::<NicChoice>().map(drop),
        _ => Err("this version of weever cannot read it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_may_be_ranges() {
        let cores = |text: &str| text.parse::<Cores>().map(|cores| cores.0);
        assert_eq!(cores("3"), Ok(vec![3]));
        assert_eq!(cores("0-2"), Ok(vec![0, 1, 2]));
        assert_eq!(cores("2-2"), Ok(vec![2]));
        assert!(cores("3-1").unwrap_err().ends_with("write 1-3"));
        for wrong in ["", "-", "a", "1-", "-1", "0-99999999999", "0-4000000000"] {
            assert!(cores(wrong).unwrap_err().contains("not a core"), "{wrong}");
        }
    }

    #[test]
    fn ports_are_a_range() {
        let ports =
            |text: &str| text.parse::<Ports>().map(|Ports(range)| (range.first, range.last));
        assert_eq!(ports("61000-63999"), Ok((61_000, 63_999)));
        assert_eq!(ports("7-7"), Ok((7, 7)));
        assert!(ports("9-8").unwrap_err().ends_with("write 8-9"));
        assert!(ports("0-8").unwrap_err().contains("port 0"));
        for wrong in ["", "61000", "1-70000", "a-b", "1-2-3"] {
            assert!(ports(wrong).unwrap_err().contains("61000-63999"), "{wrong}");
        }
    }

    #[test]
    fn a_value_that_nearly_fits_is_answered_with_what_to_write() {
        let remedy = |kind, text| check(kind, text).unwrap_err();
        assert!(remedy(Kind::Endpoint, "9464").contains("write 127.0.0.1:9464"));
        assert!(remedy(Kind::Prefix, "10.0.0.1").ends_with("write 10.0.0.1/24"));
        assert!(remedy(Kind::Prefix, "fd00::1").ends_with("write fd00::1/64"));
        assert!(remedy(Kind::Number(1, 65_535, "UDP port"), "70000").contains("too large"));
        assert!(remedy(Kind::Number(1, 65_535, "UDP port"), "-1").contains("too small"));
        assert_eq!(check(Kind::Number(1, 9, "things"), "9"), Ok(()));
    }
}
