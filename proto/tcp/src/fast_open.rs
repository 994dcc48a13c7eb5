//! Fast Open (RFC 7413): cookies, and the state of a handshake that carries octets.
//!
//! A client that has spoken to a server before puts its first octets into the SYN, with the cookie that the
//! server gave it then. The cookie shows that the client can receive at its address, so the server hands the
//! octets to its application at once, which may answer before the handshake ends:
//!
//! ```text
//!  first connection    SYN, empty cookie ──►  ◄── SYN-ACK, cookie       kept in Cookies
//!  later ones          SYN, cookie, octets ──► to the application       FastOpen::early
//!                      ◄── SYN-ACK, ◄── octets of the answer
//! ```
//!
//! Cookies are keyed hashes of both addresses under a key that changes ([`Secrets`]); they hold no state at
//! the server. What a server does for clients that never end their handshakes is limited by its listener.
//!
//! [`Secrets`]: crate::endpoint

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use weever_net::SECOND;
use weever_wire::tcp::COOKIE_LEN;

use crate::Nanos;

/// A cookie; an empty one asks for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cookie {
    octets: [u8; 16],
    len: u8,
}

impl Cookie {
    /// The cookie of an option, whose length was checked when the option was read.
    pub(crate) fn new(octets: &[u8]) -> Self {
        let len = octets.len().min(*COOKIE_LEN.end());
        let mut cookie = Self { len: len as u8, ..Self::default() };
        cookie.octets[..len].copy_from_slice(&octets[..len]);
        cookie
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The cookie in the form of an option.
    pub(crate) fn to_option(self) -> ([u8; 16], u8) {
        (self.octets, self.len)
    }
}

/// Fast Open of a connection, as long as its handshake goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FastOpen {
    /// The cookie in our SYN or SYN-ACK.
    pub(crate) option: Option<Cookie>,
    /// Octets of the stream that the SYN carried: ours, or those of the peer that were taken.
    pub(crate) early: u32,
    /// The longest segment that the server announced when it gave the cookie.
    pub(crate) mss: u16,
    /// The listener at which the connection counts as pending.
    pub(crate) pending_at: Option<u32>,
}

/// Servers whose cookies are kept.
const MOST_SERVERS: usize = 1024;
/// Octets in a SYN are not tried again for this time after such a SYN was lost, and twice as long each time.
const AVOID: Nanos = 3600 * SECOND;
/// Doublings of that time.
const MOST_DOUBLINGS: u8 = 6;

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    cookie: Cookie,
    mss: u16,
    /// SYNs with octets that were lost in a row.
    lost: u8,
    avoid_until: Nanos,
}

/// The cookies of servers (RFC 7413 §4.1.3), by our address and theirs. The oldest of too many is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Cookies {
    servers: HashMap<(IpAddr, IpAddr), Server>,
    /// The servers in the order in which they gave their first cookies.
    met: VecDeque<(IpAddr, IpAddr)>,
}

impl Cookies {
    /// How to open a connection between these addresses.
    pub(crate) fn open(&self, ends: (IpAddr, IpAddr), now: Nanos) -> FastOpen {
        match self.servers.get(&ends) {
            // §4.1.3.1: a client that found its SYN lost falls back to handshakes without Fast Open.
            Some(server) if server.avoid_until > now => FastOpen::default(),
            Some(server) => {
                FastOpen { option: Some(server.cookie), mss: server.mss, ..FastOpen::default() }
            }
            None => FastOpen { option: Some(Cookie::default()), ..FastOpen::default() },
        }
    }

    /// A server has given a cookie, and announced its longest segment (§4.1.3: both are cached).
    pub(crate) fn learn(&mut self, ends: (IpAddr, IpAddr), cookie: Cookie, mss: u16) {
        let server = self.meet(ends);
        (server.cookie, server.mss) = (cookie, mss);
    }

    /// A SYN arrived, and its answer announced this longest segment.
    pub(crate) fn arrived(&mut self, ends: (IpAddr, IpAddr), mss: u16) {
        if let Some(server) = self.servers.get_mut(&ends) {
            (server.lost, server.mss) = (0, mss);
        }
    }

    /// A SYN with a cookie or octets was lost, and one without arrived: something on the path may not let them
    /// pass.
    pub(crate) fn lost(&mut self, ends: (IpAddr, IpAddr), now: Nanos) {
        let server = self.meet(ends);
        server.avoid_until = now.saturating_add(AVOID << server.lost);
        server.lost = (server.lost + 1).min(MOST_DOUBLINGS);
    }

    fn meet(&mut self, ends: (IpAddr, IpAddr)) -> &mut Server {
        if !self.servers.contains_key(&ends) {
            if self.met.len() >= MOST_SERVERS
                && let Some(oldest) = self.met.pop_front()
            {
                self.servers.remove(&oldest);
            }
            self.met.push_back(ends);
        }
        self.servers.entry(ends).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn ends(n: u32) -> (IpAddr, IpAddr) {
        (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn a_server_is_asked_once_and_avoided_longer_after_each_loss() {
        let mut cookies = Cookies::default();
        assert!(cookies.open(ends(1), 0).option.unwrap().is_empty());
        cookies.learn(ends(1), Cookie::new(&[7; 8]), 1460);
        let open = cookies.open(ends(1), 0);
        assert_eq!((open.option, open.mss), (Some(Cookie::new(&[7; 8])), 1460));
        assert!(cookies.open(ends(2), 0).option.unwrap().is_empty(), "another server");
        for hours in [1, 2, 4] {
            cookies.lost(ends(1), 0);
            let last = hours * AVOID;
            assert_eq!(cookies.open(ends(1), last - 1).option, None);
            assert!(cookies.open(ends(1), last).option.is_some());
        }
        cookies.arrived(ends(1), 1000);
        assert_eq!(cookies.open(ends(1), 4 * AVOID).mss, 1000);
        cookies.lost(ends(1), 0);
        assert!(cookies.open(ends(1), AVOID).option.is_some(), "it begins anew");
    }

    #[test]
    fn the_cookies_that_are_kept_have_a_limit() {
        let mut cookies = Cookies::default();
        for n in 0..=MOST_SERVERS as u32 {
            cookies.learn(ends(n), Cookie::new(&[1; 4]), 1460);
        }
        assert_eq!((cookies.servers.len(), cookies.met.len()), (MOST_SERVERS, MOST_SERVERS));
        assert!(cookies.open(ends(0), 0).option.unwrap().is_empty(), "the oldest is forgotten");
        assert!(!cookies.open(ends(1), 0).option.unwrap().is_empty());
    }
}
