//! Which socket a packet is for, among a million of them.
//!
//! A [`Binding`] says which packets a socket wants: any subset of local and remote address and port,
//! the interface and the family may be left open (Dragonet thesis, appendix A: 0 is a wildcard). The
//! subset that is given is the binding's *shape*. A [`SocketTable`] keeps one hash table for all
//! bindings and a list of the shapes in use; a packet is looked up once for each shape, the most
//! specific first, so the cost depends on the number of shapes (seldom more than four) and not on
//! the number of sockets. Inserting and removing touch one entry; the hash tables grow one shard at
//! a time, so that a worker which owns the table is never busy with it for long.
//!
//! Several sockets may have the same binding. [`Sharing`] says how they divide its packets. A
//! packet to a broadcast address goes to every socket that wants it, a packet to a group to every
//! member ([`SocketTable::for_each`]). A socket that joins a group gets another binding, whose
//! local address is the group; a binding without a local address receives from no group.
//!
//! Hashes are keyed by a secret, for a peer chooses addresses and ports.
//!
//! Two sides use this module: each worker has a [`SocketTable`] of its own, which it alone touches;
//! the control side has one [`Bindings`], which admits bindings and finds ephemeral ports.

mod binding;
mod bindings;
mod table;
#[cfg(test)]
mod tests;

pub use binding::{Binding, Family, FlowKey};
pub use bindings::{BindError, Bindings, Holder, PortRange};
pub use table::{SocketTable, TableFull};

/// A socket as its table knows it: a number that the control side gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketRef {
    /// The socket's number.
    pub id: u32,
    /// The worker that receives for it when a group is divided by worker.
    pub worker: u16,
}

/// How sockets with the same binding divide its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No other socket may have the binding.
    #[default]
    Exclusive,
    /// The latest gets the packets to one address, all get those to a group (`SO_REUSEADDR` for
    /// UDP).
    Latest,
    /// By a hash of the flow: one flow stays with one socket (`SO_REUSEPORT`).
    ByFlow,
    /// To a socket of the worker that received the packet, by flow where there is none or several
    /// (`SO_REUSEPORT` with `SO_INCOMING_CPU`).
    ByWorker,
}
