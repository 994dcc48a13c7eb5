//! The `ioctl`s behind it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `ETHTOOL_GDRVINFO` of `<linux/ethtool.h>`.
const GET_DRIVER: u32 = 0x03;
/// `ETHTOOL_GCHANNELS`.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// Requests about one interface.
pub(super) struct Request {
    fd: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Request {
    /// `None` for names that no interface can have.
    pub(super) fn new(name: &str) -> io::Result<Option<Request>> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Ok(None);
        }
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut padded = [0; libc::IFNAMSIZ];
        for (place, byte) in padded.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        Ok(Some(Request { fd, name: padded }))
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<libc::ifreq> {
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_ifindex: 0 };
        // SAFETY: these requests fill in the structure and follow no address in it.
        unsafe { self.ioctl(what, ifr_ifru) }
    }

    /// # Safety
    /// `argument` has the type that the request takes: an address in it leads to its structure.
    unsafe fn ioctl(
        &self,
        what: libc::Ioctl,
        argument: libc::__c_anonymous_ifr_ifru,
    ) -> io::Result<libc::ifreq> {
        let mut request = libc::ifreq { ifr_name: self.name, ifr_ifru: argument };
        // SAFETY: the structure is live and of the type that all SIOC requests here take.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), what, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
    }

    pub(super) fn index(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFINDEX)?;
        // SAFETY: the request has filled in this variant; any bits are an integer.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex } as u32)
    }

    pub(super) fn mtu(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFMTU)?;
        // SAFETY: the request has filled in this variant; any bits are an integer.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu } as u32)
    }

    pub(super) fn mac(&self) -> io::Result<[u8; 6]> {
        let answer = self.ask(libc::SIOCGIFHWADDR)?;
        // SAFETY: the request has filled in this variant, and any bits are bytes.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr }.sa_data;
        Ok(std::array::from_fn(|i| address[i] as u8))
    }

    pub(super) fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_mtu: mtu as libc::c_int };
        // SAFETY: the request reads this variant and follows no address.
        unsafe { self.ioctl(libc::SIOCSIFMTU, ifr_ifru) }.map(drop)
    }

    pub(super) fn set_up(&self) -> io::Result<()> {
        let answer = self.ask(libc::SIOCGIFFLAGS)?;
        // SAFETY: the request has filled in this variant; any bits are an integer.
        let flags = unsafe { answer.ifr_ifru.ifru_flags } | libc::IFF_UP as libc::c_short;
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: flags };
        // SAFETY: the request reads this variant and follows no address.
        unsafe { self.ioctl(libc::SIOCSIFFLAGS, ifr_ifru) }.map(drop)
    }

    /// # Safety
    /// `T` is the ethtool structure of the command that its first field names.
    unsafe fn ethtool<T>(&self, mut data: T) -> io::Result<T> {
        let ifru_data = (&raw mut data).cast();
        // SAFETY: the address leads to the command's structure by the caller's word.
        unsafe { self.ioctl(libc::SIOCETHTOOL, libc::__c_anonymous_ifr_ifru { ifru_data }) }?;
        Ok(data)
    }

    pub(super) fn driver(&self) -> io::Result<String> {
        let info = DriverInfo { command: GET_DRIVER, driver: [0; 32], rest: [0; 160] };
        // SAFETY: the structure of this command.
        let info = unsafe { self.ethtool(info) }?;
        let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
        debug_assert_eq!(info.rest.len() + 36, size_of::<DriverInfo>());
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// How many queues receive and how many send.
    pub(super) fn queues(&self) -> io::Result<(u32, u32)> {
        let channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        // SAFETY: the structure of this command.
        let Channels { rx, tx, combined, .. } = unsafe { self.ethtool(channels) }?;
        match (rx + combined, tx + combined) {
            (0, _) | (_, 0) => Err(io::ErrorKind::NotFound.into()),
            both => Ok(both),
        }
    }
}
