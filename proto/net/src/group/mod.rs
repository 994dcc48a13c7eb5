//! Group membership of a host: IGMPv3 (RFC 3376 §5) and MLDv2 (RFC 3810 §6), which are one machine
//! on addresses of two lengths, and their ways with older queriers (§7, §8).
//!
//! [`Memberships`] is the machine of one interface. It has these kinds of methods:
//! - *users*: [`Memberships::set`] sets the sources of a group that a user of the interface (a
//!   socket, the operator) wants; the interface listens to the union over all users (§3.2);
//! - *per packet*: [`Memberships::query`] and [`Memberships::receive_report`] for messages of other
//!   stations; [`Memberships::accepts`] whether a datagram to a group is wanted;
//! - *time*: [`Memberships::poll`], again and again until it writes nothing more, once
//!   [`Memberships::poll_at`] has come.
//!
//! A change is reported at once and again, robustness times in all; a query is answered after a
//! random delay, which joins the answers to several queries. Groups, sources and users are bounded:
//! a record with all its sources always fits a message.

mod family;
mod filter;
mod machine;
mod member;
mod received;
mod report;
#[cfg(test)]
mod tests;

pub use family::{Family, Query, Version};
pub use filter::{Filter, MAX_SOURCES, Mode};
pub use machine::{GroupError, MembershipConfig, Memberships};
pub use report::Outgoing;
