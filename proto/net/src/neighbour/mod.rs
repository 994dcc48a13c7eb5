//! What ARP and neighbour discovery have in common: a bounded cache of who has which link address,
//! and the shape of the protocol around it.
//!
//! [`Discovery`] is one interface's protocol, [`arp::Cache`](crate::arp::Cache) or
//! [`ndp::Node`](crate::ndp::Node): packets look neighbours up, time asks them, what was found is
//! read from its [`Entries`]. Which packets teach it what, each family says for itself.

mod discovery;
mod entries;
mod state;
mod table;

pub use discovery::{Action, Discovery};
pub use entries::Entries;
pub use state::{Learned, Lookup, Neighbour, State, TableFull};
pub(crate) use table::{Entry, NEVER};
