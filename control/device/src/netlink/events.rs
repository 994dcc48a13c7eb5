//! What the kernel announces of a device: changes of the link, and of what `ethtool` sets. There is no announcement
//! of rules that come or go.

use std::io;

use netlink_sys::Socket;
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};

use super::Questions;
use super::wire::{Message, Messages, find, number};

/// `RTNLGRP_LINK`.
const LINKS: u32 = 1;
/// `RTM_NEWLINK`, `RTM_DELLINK`.
const LINK: u16 = 16;
const LINK_GONE: u16 = 17;
/// In `struct ifinfomsg`.
const INDEX: usize = 4;
const FLAGS: usize = 8;
const LINK_HEADER: usize = 16;
/// `IFF_RUNNING`: it is up and has a carrier.
const RUNNING: u32 = 0x40;
/// `IFLA_NEW_NETNSID`, `IFLA_NEW_IFINDEX`: in the announcement of a device's end, it goes on elsewhere.
const ELSEWHERE: [u16; 2] = [45, 49];
/// In every announcement of `ethtool`'s family: `ETHTOOL_A_*_HEADER`, and in that `ETHTOOL_A_HEADER_DEV_INDEX`.
const ABOUT: u16 = 1;
const ABOUT_INDEX: u16 = 1;
/// `ETHTOOL_MSG_RINGS_NTF`, `ETHTOOL_MSG_CHANNELS_NTF`: most drivers start anew for these.
const RESTARTING: [u8; 2] = [17, 19];

/// More datagrams wait for the next call.
const MOST_AT_ONCE: usize = 1 << 10;

/// What was announced of a device since it was asked for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Something, of whatever kind; also if announcements were lost.
    pub anything: bool,
    /// The link went down, or its rings or queues were changed: drivers start anew then, and may forget what they had.
    pub restart: bool,
    /// It went to another network namespace.
    pub moved: bool,
}

/// Listens to what is announced of one device, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Listener {
    ifindex: u32,
    links: Socket,
    /// With `ethtool`'s number; old kernels do not announce its changes.
    settings: Option<(Socket, u16)>,
    /// Whether the link was running, when it was mentioned last.
    was_running: Option<bool>,
}

impl Listener {
    pub(crate) fn open(ifindex: u32) -> io::Result<Listener> {
        let links = listening(NETLINK_ROUTE, LINKS)?;
        let settings = || {
            let family = Questions::open()?.family("ethtool")?;
            let group = family.group("monitor").ok_or(io::ErrorKind::Unsupported)?;
            Ok::<_, io::Error>((listening(NETLINK_GENERIC, group)?, family.id))
        };
        Ok(Listener { ifindex, links, settings: settings().ok(), was_running: None })
    }

    /// What was announced since the last call. Does not wait.
    pub(crate) fn take(&mut self) -> Announced {
        let mut heard = Announced::default();
        let Listener { ifindex, links, settings, was_running } = self;
        drain(links, &mut heard, &mut |message, heard| {
            about_link(message, *ifindex, was_running, heard);
        });
        if let Some((socket, family)) = settings {
            drain(socket, &mut heard, &mut |message, heard| {
                if message.kind == *family {
                    about_setting(message, *ifindex, heard);
                }
            });
        }
        heard
    }
}

fn listening(protocol: isize, group: u32) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.add_membership(group)?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

fn drain(
    socket: &Socket,
    heard: &mut Announced,
    take: &mut dyn FnMut(&Message<'_>, &mut Announced),
) {
    for _ in 0..MOST_AT_ONCE {
        match socket.recv_from_full() {
            // Any process may send to the socket.
            Ok((_, from)) if from.port_number() != 0 => {}
            Ok((datagram, _)) => Messages(&datagram).for_each(|message| take(&message, heard)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // The kernel had no room for all of them.
                heard.anything |= error.raw_os_error() == Some(libc::ENOBUFS);
                if error.raw_os_error() != Some(libc::ENOBUFS) {
                    return;
                }
            }
        }
    }
}

fn about_link(
    message: &Message<'_>,
    ifindex: u32,
    was_running: &mut Option<bool>,
    heard: &mut Announced,
) {
    let word = |at: usize| message.body.get(at..at + 4).and_then(number);
    if word(INDEX) != Some(ifindex.into()) {
        return;
    }
    match message.kind {
        LINK => {
            let is_running = word(FLAGS).is_some_and(|flags| flags as u32 & RUNNING != 0);
            heard.restart |= !is_running && was_running.replace(is_running) != Some(false);
            *was_running = Some(is_running);
            heard.anything = true;
        }
        LINK_GONE => {
            let attributes = message.body.get(LINK_HEADER..).unwrap_or_default();
            heard.moved |= ELSEWHERE.iter().any(|kind| find(attributes, *kind).is_some());
            heard.anything = true;
        }
        _ => {}
    }
}

fn about_setting(message: &Message<'_>, ifindex: u32, heard: &mut Announced) {
    let about = message.attributes().and_then(|attributes| find(attributes, ABOUT));
    let index = about.and_then(|about| find(about, ABOUT_INDEX)).and_then(number);
    if index == Some(ifindex.into()) {
        heard.anything = true;
        heard.restart |= message.command().is_some_and(|command| RESTARTING.contains(&command));
    }
}
