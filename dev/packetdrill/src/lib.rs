//! `libweever_packetdrill.so`: weever's TCP engine under Google's packetdrill.
//!
//! packetdrill loads a library with `--so_filename`, has [`packetdrill_interface_init`] fill a table of
//! functions, and then plays both an application, by the table's system calls, and the network, by
//! `netdev_send` and `netdev_receive`:
//!
//! ```text
//!  packetdrill's thread:  gettimeofday, usleep ─► Stack::pass ─► timers ──┐
//!                         netdev_send ─► packet::take ─► Endpoint ────────┼─► outbox, stamped with the time
//!                         netdev_receive ◄────────────────────────────────┘
//!  its second thread:     accept, read, … ─► blocking ─► calls ─► Endpoint, or asleep until something has changed
//! ```
//!
//! The clock is virtual: a microsecond passes with each look at it, and as much as is asked for in `usleep` and in
//! `netdev_receive`, which goes from deadline to deadline until a packet leaves. So a script of minutes takes
//! milliseconds, and a busy machine fails none. A blocking call really sleeps, since packetdrill looks in `/proc`
//! whether it does; the clock waits for the thread that is woken.
//!
//! `--so_flags` names the addresses and the MTU: `local=192.168.0.1,local=fd3d:fa7b:d17d::1,mtu=1500`, which are the
//! defaults and packetdrill's own. Settings that a script makes by `sysctl` are read from `/proc/sys` by the first
//! `socket()` after all sockets are closed. What scripts do beside the table (`%{ }%`, `sendfile`) reaches the
//! kernel and not this stack.
#![allow(
    unsafe_code,
    reason = "the table of functions is C's, and so are the buffers in its calls"
)]

mod blocking;
mod calls;
mod interface;
mod memory;
mod options;
mod packet;
mod ready;
mod settings;
mod stack;

pub use interface::{Interface, packetdrill_interface_init};
