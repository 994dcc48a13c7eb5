//! Leases as servers grant them.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use weever_wire::dhcp4::{DhcpView, collect, option};

use crate::SECOND;
use crate::addr::Cidr;

/// Name servers that are kept.
pub const MAX_DNS: usize = 4;
/// Routes that are kept.
pub const MAX_ROUTES: usize = 32;
/// Leases shorter than this are not taken: renewing them would be a flood.
const MIN_LEASE: u32 = 10;
/// A lease without an end (RFC 2131 §3.3).
const INFINITE: u32 = u32::MAX;
/// RFC 791: every host takes this; smaller ones are ignored.
const MIN_MTU: u16 = 576;

/// A route that comes with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayRoute {
    /// The destinations.
    pub to: Cidr,
    /// The gateway; unspecified: the destination is on the link itself (RFC 3442).
    pub gateway: Ipv4Addr,
}

/// An address and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address, and the prefix of its link.
    pub address: Cidr,
    /// The server that granted it.
    pub server: Ipv4Addr,
    /// At most [`MAX_ROUTES`]: classless routes if there are any, else the default route (RFC
    /// 3442: "the DHCP client MUST ignore the Router option").
    pub routes: Vec<GatewayRoute>,
    /// At most [`MAX_DNS`] name servers.
    pub dns: Vec<Ipv4Addr>,
    /// The MTU of the link, if the server said one.
    pub mtu: Option<u16>,
    /// When it was asked for, on the caller's clock: RFC 2131 §4.4.1 counts from there.
    pub since: u64,
    /// How long it lasts, in nanoseconds; `u64::MAX`: for ever.
    pub lasts: u64,
    /// The time after which to renew it.
    pub renew_after: u64,
    /// The time after which to ask any server.
    pub rebind_after: u64,
}

impl Lease {
    /// The lease in an OFFER or ACK; `None` if it cannot be used.
    pub(super) fn parse(view: DhcpView<'_>, since: u64) -> Option<Lease> {
        let ip = view.header().your_ip();
        let server = address(view, option::SERVER_ID)?;
        let seconds = number(view, option::LEASE_TIME)?;
        if !is_host(ip) || !is_host(server) || seconds < MIN_LEASE {
            return None;
        }
        let address = Cidr::new(ip, prefix_len(view, ip)?)?;
        let usable = address.broadcast() != Some(ip)
            && (address.prefix_len() > 30 || address.network().addr() != ip);
        if !usable {
            return None;
        }
        let (lasts, renew_after, rebind_after) = times(view, seconds);
        let (routes, dns) = (routes(view), list(view, option::DNS, MAX_DNS));
        Some(Lease {
            address,
            server,
            routes,
            dns,
            mtu: mtu(view),
            since,
            lasts,
            renew_after,
            rebind_after,
        })
    }

    /// When it ends.
    pub fn until(&self) -> u64 {
        self.since.saturating_add(self.lasts)
    }
}

/// Lease, T1 and T2 (RFC 2131 §4.4.5: 0.5 and 0.875 of the lease, unless the server says other
/// ones that are in order).
fn times(view: DhcpView<'_>, seconds: u32) -> (u64, u64, u64) {
    if seconds == INFINITE {
        return (u64::MAX, u64::MAX, u64::MAX);
    }
    let lasts = u64::from(seconds) * SECOND;
    let said = |code| number(view, code).map(|seconds| u64::from(seconds) * SECOND);
    let rebind = said(option::REBINDING_TIME).filter(|t| *t < lasts).unwrap_or(lasts / 8 * 7);
    let least = SECOND * u64::from(MIN_LEASE) / 2;
    let renew = said(option::RENEWAL_TIME).filter(|t| (least..rebind).contains(t));
    (lasts, renew.unwrap_or((lasts / 2).min(rebind)), rebind)
}

/// Whether an address can be a host's.
pub(super) fn is_host(ip: Ipv4Addr) -> bool {
    !matches!(ip.octets()[0], 0 | 127 | 224..)
}

fn prefix_len(view: DhcpView<'_>, ip: Ipv4Addr) -> Option<u8> {
    match address(view, option::SUBNET_MASK) {
        Some(mask) if mask.to_bits().leading_ones() == mask.to_bits().count_ones() => {
            Some(mask.to_bits().leading_ones() as u8).filter(|len| *len > 0)
        }
        Some(_) => None,
        // From the days of classes.
        None => Some(match ip.octets()[0] {
            ..128 => 8,
            128..192 => 16,
            _ => 24,
        }),
    }
}

fn mtu(view: DhcpView<'_>) -> Option<u16> {
    let found = view.options().find(|o| o.code == option::MTU)?;
    let mtu = u16::from_be_bytes(found.data.try_into().ok()?);
    (mtu >= MIN_MTU).then_some(mtu)
}

fn number(view: DhcpView<'_>, code: u8) -> Option<u32> {
    let found = view.options().find(|o| o.code == code)?;
    Some(u32::from_be_bytes(found.data.try_into().ok()?))
}

pub(super) fn address(view: DhcpView<'_>, code: u8) -> Option<Ipv4Addr> {
    number(view, code).map(Ipv4Addr::from_bits)
}

fn list(view: DhcpView<'_>, code: u8, max: usize) -> Vec<Ipv4Addr> {
    let Some(collected) = collect(view.options(), code) else { return Vec::new() };
    let (addresses, _) = collected.bytes().as_chunks::<4>();
    addresses
        .iter()
        .map(|a| Ipv4Addr::from_octets(*a))
        .filter(|ip| is_host(*ip))
        .take(max)
        .collect()
}

fn routes(view: DhcpView<'_>) -> Vec<GatewayRoute> {
    let classless = collect(view.options(), option::CLASSLESS_ROUTES);
    if let Some(routes) = classless.and_then(|collected| classless_routes(collected.bytes())) {
        return routes;
    }
    let default = list(view, option::ROUTER, 1);
    default.into_iter().map(|gateway| GatewayRoute { to: Cidr::ALL, gateway }).collect()
}

/// RFC 3442: width, the significant bytes of the destination, the router; `None` if malformed.
fn classless_routes(mut bytes: &[u8]) -> Option<Vec<GatewayRoute>> {
    let mut routes = Vec::new();
    while let Some((&width, rest)) = bytes.split_first() {
        let significant = usize::from(width).div_ceil(8);
        let (prefix, rest) = rest.split_at_checked(significant)?;
        let (gateway, rest) = rest.split_first_chunk::<4>()?;
        let mut octets = [0; 4];
        octets.get_mut(..significant)?.copy_from_slice(prefix);
        let to = Cidr::new(octets.into(), width)?.network();
        let gateway = Ipv4Addr::from_octets(*gateway);
        let on_link = gateway.is_unspecified();
        if routes.len() < MAX_ROUTES && (on_link || is_host(gateway)) {
            routes.push(GatewayRoute { to, gateway });
        }
        bytes = rest;
    }
    Some(routes)
}
