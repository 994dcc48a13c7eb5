//! Properties of a network interface, by `ioctl` in the caller's network namespace.

mod features;
mod request;

use std::io;

use request::Request;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

pub(crate) use features::completes_checksums;

/// Why an interface could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// There is none of that name.
    #[error("no interface {name} in this network namespace{}", remedy(.near))]
    NotFound {
        /// The name asked for.
        name: String,
        /// Names that look like it, or all there are if none does.
        near: Vec<String>,
    },
    /// A request was refused.
    #[error("interface {name}: {what}: {source}")]
    Io {
        /// The interface.
        name: String,
        /// The request.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
}

/// An interface at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Largest packet behind the link header, in bytes.
    pub mtu: u32,
    /// Its driver's name; empty if it has none that tells (loopback).
    pub driver: String,
    /// How many receive queues are in use.
    pub rx_queues: u32,
    /// How many transmit queues are in use.
    pub tx_queues: u32,
}

impl Interface {
    /// Looks an interface up.
    ///
    /// # Errors
    /// [`InterfaceError::NotFound`] with similar names.
    pub fn find(name: &str) -> Result<Interface, InterfaceError> {
        let not_found = || InterfaceError::NotFound { name: name.into(), near: near(name) };
        let fail = |what| move |source| InterfaceError::Io { name: name.into(), what, source };
        let request = Request::new(name).map_err(fail("socket"))?.ok_or_else(not_found)?;
        let index = match request.index() {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Err(not_found()),
            other => other.map_err(fail("SIOCGIFINDEX"))?,
        };
        let (rx_queues, tx_queues) =
            request.queues().ok().or_else(|| listed_queues(name)).unwrap_or((1, 1));
        Ok(Interface {
            name: name.into(),
            index,
            mac: request.mac().map_err(fail("SIOCGIFHWADDR"))?,
            mtu: request.mtu().map_err(fail("SIOCGIFMTU"))?,
            driver: request.driver().unwrap_or_default(),
            rx_queues,
            tx_queues,
        })
    }

    /// Whether its driver hands over packets whose transport checksum the sender's kernel left to
    /// a device that never came (design/0000 §4.5).
    pub fn partial_checksums(&self) -> bool {
        matches!(self.driver.as_str(), "veth" | "virtio_net" | "tun" | "netkit" | "")
    }
}

/// Sets an interface's MTU.
pub(crate) fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    request(name)?.set_mtu(mtu)
}

/// Brings an interface up.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    request(name)?.set_up()
}

fn request(name: &str) -> io::Result<Request> {
    Request::new(name)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

/// For drivers that do not answer about channels. The directory may show another namespace's
/// interfaces, which is why it comes second.
fn listed_queues(name: &str) -> Option<(u32, u32)> {
    let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).ok()?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let count = |prefix: &str| {
        let n = names.iter().filter(|n| n.as_encoded_bytes().starts_with(prefix.as_bytes()));
        u32::try_from(n.count()).ok().filter(|n| *n > 0)
    };
    count("rx-").zip(count("tx-"))
}

/// Interface indices are handed out from 1 on; a namespace rarely gets far.
const LAST_INDEX: u32 = 512;

/// The interfaces that are there.
fn all() -> Vec<String> {
    let Ok(fd) = socket(AddressFamily::INET, SocketType::DGRAM, None) else { return Vec::new() };
    (1..=LAST_INDEX).filter_map(|index| index_to_name(&fd, index).ok()).collect()
}

/// The name that was probably meant by `name`; if there is none, up to eight names that there are.
pub(super) fn near(name: &str) -> Vec<String> {
    let mut names = all();
    if let Some(near) = weever_suggest::nearest(name, names.iter().map(String::as_str)) {
        return vec![near.to_owned()];
    }
    names.truncate(8);
    names
}

pub(super) fn remedy(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        more => format!("; there are {}", more.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let lo = Interface::find("lo").unwrap();
        assert_eq!((lo.name.as_str(), lo.mac), ("lo", [0; 6]));
        assert!(lo.index > 0 && lo.mtu >= 1500);
        assert_eq!((lo.rx_queues, lo.tx_queues), (1, 1));
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_right_one() {
        for wrong in ["loo", "l0", "Lo"] {
            let error = Interface::find(wrong).unwrap_err();
            assert!(matches!(error, InterfaceError::NotFound { .. }));
            let text = error.to_string();
            assert!(text.contains(wrong) && text.contains("did you mean lo"), "{text}");
        }
    }

    #[test]
    fn names_that_no_interface_can_have_are_not_found() {
        for wrong in ["", "an-interface-name-that-is-too-long", "nul\0"] {
            let error = Interface::find(wrong).unwrap_err();
            assert!(matches!(error, InterfaceError::NotFound { .. }), "{error}");
        }
    }

    #[test]
    fn a_remedy_names_what_there_is() {
        assert_eq!(remedy(&[]), "");
        assert_eq!(remedy(&["lo".into()]), "; did you mean lo?");
        assert_eq!(remedy(&["a".into(), "b".into()]), "; there are a, b");
    }
}
