//! Settings of the whole host, and its bounds.

use crate::ipv4::DEFAULT_TTL;

/// Interfaces that a host can have.
pub const MAX_INTERFACES: usize = 1024;
/// RFC 791 §3.2: "Every internet module must be able to forward a datagram of 68 octets without
/// further fragmentation."
pub const MIN_MTU: u16 = 68;

/// The reverse-path check of source addresses (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReversePath {
    /// No check.
    #[default]
    None,
    /// There has to be a route to it (§2.4).
    Loose,
    /// The route to it has to lead back where the datagram came from (§2.2).
    Strict,
}

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Tokens per second.
    pub per_second: u32,
    /// Tokens that can be saved up.
    pub burst: u32,
}

/// How often errors are reported (RFC 1812 §4.3.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IcmpRates {
    /// Of each kind.
    pub each: Rate,
    /// Of all kinds together.
    pub all: Rate,
}

impl Default for IcmpRates {
    fn default() -> Self {
        let (each, all) = ((1000, 50), (2000, 200));
        let rate = |(per_second, burst)| Rate { per_second, burst };
        Self { each: rate(each), all: rate(all) }
    }
}

/// Settings of the whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether datagrams for others are forwarded. RFC 1122 §3.3.1.1 and RFC 1812 §2.2.8.1: "MUST
    /// be off by default" in a host.
    pub forwarding: bool,
    /// Whether a sender whose packets we forward back to its own link gets a redirect: RFC 1812 §5.2.7.2 and RFC 4861 §8.2 have routers do so.
    pub redirects: bool,
    /// The check of sources against routes.
    pub reverse_path: ReversePath,
    /// How often errors are reported.
    pub icmp: IcmpRates,
    /// Time to live of the packets we send.
    pub default_ttl: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            forwarding: false,
            redirects: true,
            reverse_path: ReversePath::None,
            icmp: IcmpRates::default(),
            default_ttl: DEFAULT_TTL,
        }
    }
}
