//! A copy of the kernel's network state, kept up to date: links, addresses, routes, neighbours.
//!
//! With `share = ports` the addresses are the kernel's, and so are its routes and its neighbours:
//! the stack takes them over from here. In every mode this is how a change of a device's MTU, or
//! its going down, is noticed.
//!
//! A [`Mirror`] reads everything once (rtnetlink, rfc 3549), subscribes to changes, and tells
//! differences only, as plain data: [`Mirror::poll`]. Changes that the kernel does not announce
//! (IPv4 routes that go with their link or address), or had no room to announce (`ENOBUFS`), are
//! found by reading everything again. It is for the control thread: a poll makes system calls, and
//! a re-reading takes milliseconds.

mod event;
mod message;
mod socket;
mod tables;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::RouteNetlinkMessage;

pub use event::{Address, Event, LinkState, Neighbour, Route, RouteKey};
use message::Fact;
use socket::{Announced, Requests, Subscription};
use tables::Tables;

/// How many datagrams one poll reads before it gives the thread back.
const MOST_DATAGRAMS: usize = 256;

/// The kernel's view of the network in one namespace.
#[derive(Debug)]
pub struct Mirror {
    subscription: Subscription,
    requests: Requests,
    /// Empty: all.
    interfaces: BTreeSet<u32>,
    tables: Tables,
    /// Whether something may have changed without an announcement.
    stale: bool,
}

impl Mirror {
    /// Subscribes in the calling thread's network namespace, to which the mirror belongs for ever.
    /// Of interest are the interfaces with these indices, or all when there are none. The first
    /// [`poll`](Self::poll) tells everything there is.
    ///
    /// # Errors
    /// The kernel's word. It takes no privilege.
    pub fn open(interfaces: impl IntoIterator<Item = u32>) -> io::Result<Mirror> {
        Ok(Mirror {
            // First, so that nothing happens between reading and listening.
            subscription: Subscription::open()?,
            requests: Requests::open()?,
            interfaces: interfaces.into_iter().collect(),
            tables: Tables::default(),
            stale: true,
        })
    }

    /// Reads the announcements and tells the differences. Does not wait: wait on the
    /// [descriptor](AsFd::as_fd) if nothing was told.
    ///
    /// # Errors
    /// The kernel's word; the next call reads everything again.
    pub fn poll(&mut self, mut tell: impl FnMut(Event)) -> io::Result<()> {
        for _ in 0..MOST_DATAGRAMS {
            match self.subscription.next() {
                Ok(None) => break,
                Ok(Some(announced)) => self.apply(announced, &mut tell),
                Err(error) => {
                    self.stale = true;
                    return Err(error);
                }
            }
        }
        if std::mem::take(&mut self.stale) {
            self.read_again(&mut tell).inspect_err(|_| self.stale = true)?;
        }
        Ok(())
    }

    /// Has the kernel find out a neighbour's hardware address, or confirm it: it is told as a
    /// change of the neighbour. Does not wait. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// When the request cannot be sent. Whether the kernel refuses it is not waited for.
    pub fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        self.requests.send(message::resolve(interface, address), message::RESOLVE_FLAGS)
    }

    fn apply(&mut self, announced: Announced, tell: &mut impl FnMut(Event)) {
        match announced {
            Announced::Lost => self.stale = true,
            Announced::Messages(messages) => {
                for (message, replaces) in &messages {
                    self.apply_message(message, *replaces, tell);
                }
            }
        }
    }

    fn apply_message(
        &mut self,
        message: &RouteNetlinkMessage,
        replaces: bool,
        tell: &mut impl FnMut(Event),
    ) {
        let Some(fact) = message::fact(message).filter(|fact| self.concerns_us(fact)) else {
            return;
        };
        // Routes go with them unannounced.
        self.stale |= matches!(&fact, Fact::Is(Event::Link(_)) | Fact::Gone(Event::LinkGone(_)))
            && self.tables.would_change(&fact)
            || matches!(&fact, Fact::Gone(Event::AddressGone(_)));
        self.tables.apply(fact, replaces, tell);
    }

    fn concerns_us(&self, fact: &Fact) -> bool {
        self.interfaces.is_empty() || self.interfaces.contains(&fact.event().interface())
    }

    fn read_again(&mut self, tell: &mut impl FnMut(Event)) -> io::Result<()> {
        let mut now = Tables::default();
        for request in message::dumps() {
            for message in self.requests.dump(&request)? {
                let fact = message::fact(&message).filter(|fact| self.concerns_us(fact));
                if let Some(fact) = fact {
                    now.apply(fact, false, &mut |_| {});
                }
            }
        }
        self.tables.become_and_tell(now, tell);
        Ok(())
    }
}

impl AsFd for Mirror {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}
