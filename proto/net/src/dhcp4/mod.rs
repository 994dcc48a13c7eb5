//! A DHCP client for IPv4 (RFC 2131, RFC 2132, RFC 3396, RFC 3442), which probes an offered address
//! before it uses it (RFC 5227).
//!
//! ```text
//!            DISCOVER        OFFER           ACK          no conflict  
//!   Init ──────────► Selecting ──► Requesting ──► Probing ─────────► Bound
//!    ▲ ▲                                │ NAK       │ conflict: DECLINE  │ T1
//!    │ └────────────────────────────────┴───────────┘                    ▼
//!    └── NAK, lease over ── Rebinding ◄──────── T2 ─────────────── Renewing ──ACK──► Bound
//! ```
//!
//! After a restart with a lease, `Rebinding` begins at once and gives up after a few requests: then
//! the client looks for another lease from `Init` on, and uses the one it has until that ends.
//!
//! [`Client`] has these kinds of methods:
//! - *per packet*: [`Client::handle`] for datagrams to UDP port 68; [`Client::conflict`] when an
//!   ARP packet says that another station has the address of [`Client::probed`] or of the lease;
//! - *time*: [`Client::poll`], again and again until it has nothing more to say, after any other
//!   call and once [`Client::poll_at`] has come;
//! - *operators*: [`Client::release`], [`Client::restart`], [`Client::state`], [`Client::lease`].
//!
//! [`Transmit`] is built by [`Transmit::emit`] as the payload of a UDP datagram from port 68 to
//! port 67. Before there is an address it goes from 0.0.0.0 to 255.255.255.255 and asks for the
//! answer by broadcast, so that a station without an address can hear it.
//!
//! # Deliberate exceptions
//! - The first offer that can be used is taken, without waiting for better ones.
//! - The random delay before the first DISCOVER is at most one second, where RFC 2131 §4.4.1 has
//!   one to ten: it was made for rooms full of machines switched on at once.
//! - No INIT-REBOOT: after a restart the client discovers anew, and servers remember it by its
//!   link address.

mod acquire;
mod client;
mod lease;
mod send;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientConfig, Event, Ignored, Output, Probing, State};
pub use lease::{GatewayRoute, Lease, MAX_DNS, MAX_ROUTES};
pub use send::Transmit;
pub use weever_wire::dhcp4::{CLIENT_PORT, SERVER_PORT};
