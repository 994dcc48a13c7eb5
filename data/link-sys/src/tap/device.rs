//! Making a TAP interface, step by step.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open as open_file};
use weever_packet::{Buffer, Flags};

use super::config::{TapConfig, TapError};
use crate::netdev::{self, Interface};
use crate::offload::{Gathered, Layers, Transport};

/// Of `<linux/if_tun.h>`: no protocol information in front, a vnet header instead.
const KIND: c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
/// `MAX_TAP_QUEUES` of the driver.
const MOST_QUEUES: u16 = 256;

const CHECKSUM: u32 = libc::TUN_F_CSUM;
const TCP: u32 = CHECKSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const UDP: u32 = libc::TUN_F_USO4 | libc::TUN_F_USO6;

pub(super) struct Opened {
    pub(super) queues: Vec<Arc<OwnedFd>>,
    pub(super) interface: Interface,
    /// Whether the kernel leaves segmentation to us.
    pub(super) segmentation: bool,
}

pub(super) fn open(config: &TapConfig) -> Result<Opened, TapError> {
    check(config)?;
    let (first, name, many) = first_queue(config)?;
    let mut queues = vec![first];
    for _ in 1..config.queues {
        queues.push(attach(&name, many).map_err(|e| e.named(&name))?.0);
    }
    let first = &queues[0];
    let fail = |what| move |source| (what, source);
    let set = || -> Result<bool, (&'static str, io::Error)> {
        for queue in &queues {
            let size = size_of::<Header>() as c_int;
            set_int(queue, libc::TUNSETVNETHDRSZ, size).map_err(fail("TUNSETVNETHDRSZ"))?;
        }
        if let Some(owner) = config.owner {
            set_value(first, libc::TUNSETOWNER, owner.into()).map_err(fail("TUNSETOWNER"))?;
        }
        if let Some(stays) = config.persistent {
            set_value(first, libc::TUNSETPERSIST, stays.into()).map_err(fail("TUNSETPERSIST"))?;
        }
        offload(first, config.segmentation).map_err(fail("TUNSETOFFLOAD"))
    };
    let segmentation = set().map_err(|(what, source)| TapError::call(&name, what, source))?;
    let interface = configure(config, &name)?;
    Ok(Opened { queues: queues.into_iter().map(Arc::new).collect(), interface, segmentation })
}

fn check(config: &TapConfig) -> Result<(), TapError> {
    let name = config.name.clone();
    let bad = |c: char| c == '/' || c == '\0' || c.is_whitespace();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(bad) {
        return Err(TapError::Name { name });
    }
    if config.queues == 0 || config.queues > MOST_QUEUES {
        return Err(TapError::Queues { name, queues: config.queues });
    }
    Ok(())
}

/// The first queue, the interface's name, and whether it may have several. One that exists decides
/// the latter itself.
fn first_queue(config: &TapConfig) -> Result<(OwnedFd, String, bool), TapError> {
    let many = config.queues > 1;
    let attached = match attach(&config.name, many) {
        Err(Refused { source, .. }) if !many && source.raw_os_error() == Some(libc::EINVAL) => {
            return match attach(&config.name, true) {
                Ok((fd, name)) => Ok((fd, name, true)),
                Err(refused) => Err(refused.named(&config.name)),
            };
        }
        other => other,
    };
    let (fd, name) = attached.map_err(|refused| refused.named(&config.name))?;
    Ok((fd, name, many))
}

struct Refused {
    what: &'static str,
    source: io::Error,
}

impl Refused {
    fn named(self, name: &str) -> TapError {
        let Refused { what, source } = self;
        match what {
            "open" if source.raw_os_error() != Some(libc::EACCES) => {
                TapError::NoDriver { name: name.to_owned(), source }
            }
            _ => TapError::call(name, what, source),
        }
    }
}

fn attach(name: &str, many: bool) -> Result<(OwnedFd, String), Refused> {
    let refused = |what| move |source| Refused { what, source };
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = open_file("/dev/net/tun", flags, Mode::empty())
        .map_err(|errno| refused("open")(errno.into()))?;
    let many = if many { libc::IFF_MULTI_QUEUE } else { 0 };
    let name = set_interface(&fd, name, KIND | many).map_err(refused("TUNSETIFF"))?;
    Ok((fd, name))
}

/// Asks for as much as the kernel knows of; true if segmentation is among it.
fn offload(fd: &OwnedFd, segmentation: bool) -> io::Result<bool> {
    let wanted = if segmentation { &[TCP | UDP, TCP, CHECKSUM][..] } else { &[CHECKSUM][..] };
    let mut refusal = None;
    for features in wanted {
        match set_value(fd, libc::TUNSETOFFLOAD, c_ulong::from(*features)) {
            Ok(()) => return Ok(*features != CHECKSUM),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

fn configure(config: &TapConfig, name: &str) -> Result<Interface, TapError> {
    let fail = |what| move |source| TapError::call(name, what, source);
    if let Some(mtu) = config.mtu {
        netdev::set_mtu(name, mtu.into()).map_err(fail("setting the MTU"))?;
    }
    if config.up {
        netdev::set_up(name).map_err(fail("bringing it up"))?;
    }
    Ok(Interface::find(name)?)
}

pub(super) fn set_carrier(fd: &OwnedFd, plugged_in: bool) -> io::Result<()> {
    set_int(fd, libc::TUNSETCARRIER, plugged_in.into())
}

fn set_interface(fd: &OwnedFd, name: &str, flags: c_int) -> io::Result<String> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (place, byte) in ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = byte as libc::c_char;
    }
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: a live structure of the type that TUNSETIFF reads and writes.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let given = request.ifr_name.iter().take_while(|byte| **byte != 0);
    Ok(given.map(|byte| char::from(*byte as u8)).collect())
}

/// A request that takes its argument by address.
fn set_int(fd: &OwnedFd, request: libc::Ioctl, value: c_int) -> io::Result<()> {
    // SAFETY: these requests read one live int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw const value) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request that takes its argument by value.
fn set_value(fd: &OwnedFd, request: libc::Ioctl, value: c_ulong) -> io::Result<()> {
    // SAFETY: these requests take an integer and touch no memory.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, value) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The checksum from `checksum_start` on is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum was verified.
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The first segment has CWR set.
const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr` in the host's byte order, as the driver has it unless told otherwise.
pub(super) type Header = [u8; 10];

/// The contents of a received header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) flags: Flags,
    /// For a packet that is to be cut: its transport and the payload of a piece. `Err`: a kind that
    /// was not asked for.
    pub(super) segments: Result<Option<(Transport, u16)>, ()>,
}

impl Received {
    pub(super) fn of(header: &Header) -> Received {
        let mut flags = Flags::MAY_BE_PARTIAL;
        if header[0] & NEEDS_CHECKSUM != 0 {
            flags = flags.with(Flags::PARTIAL_CHECKSUM);
        }
        if header[0] & DATA_VALID != 0 {
            flags = flags.with(Flags::CHECKSUM_VERIFIED);
        }
        let size = u16::from_ne_bytes([header[4], header[5]]);
        let segments = match header[1] & !GSO_ECN {
            GSO_NONE => Ok(None),
            GSO_TCP4 | GSO_TCP6 => Ok(Some((Transport::Tcp, size))),
            GSO_UDP => Ok(Some((Transport::Udp, size))),
            _ => Err(()),
        };
        Received { flags, segments }
    }
}

/// The header for segments that leave as one packet.
pub(super) fn header_of_gathered(packet: &Gathered) -> Header {
    let mut header = Header::default();
    header[0] = NEEDS_CHECKSUM;
    header[1] = if packet.layers.v6 { GSO_TCP6 } else { GSO_TCP4 };
    header[2..4].copy_from_slice(&(packet.payload as u16).to_ne_bytes());
    header[4..6].copy_from_slice(&packet.size.to_ne_bytes());
    header[6..8].copy_from_slice(&(packet.layers.l4 as u16).to_ne_bytes());
    let checksum_at = packet.layers.transport.checksum_at() as u16;
    header[8..10].copy_from_slice(&checksum_at.to_ne_bytes());
    header
}

/// The header for a packet to be sent.
pub(super) fn header_of(packet: &Buffer) -> Header {
    let mut header = Header::default();
    let meta = packet.meta();
    if !meta.flags.has(Flags::PARTIAL_CHECKSUM) {
        return header;
    }
    let frame = packet.data();
    let Some(layers) = Layers::of(frame) else { return header };
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&(layers.l4 as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&(layers.transport.checksum_at() as u16).to_ne_bytes());
    let payload = layers.payload(frame).unwrap_or(frame.len());
    if meta.segment != 0 && frame.len() > payload + usize::from(meta.segment) {
        header[1] = match (layers.transport, layers.v6) {
            (Transport::Tcp, false) => GSO_TCP4,
            (Transport::Tcp, true) => GSO_TCP6,
            (Transport::Udp, _) => GSO_UDP,
        };
        header[2..4].copy_from_slice(&(payload as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&meta.segment.to_ne_bytes());
    }
    header
}
