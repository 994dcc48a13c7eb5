//! The shared memory between an application and the stack.
//!
//! An **application queue** is a set of **channels**, one for each worker of the stack. A channel is
//! one sealed memfd with four single-producer single-consumer rings and the frames that travel in
//! them:
//!
//! ```text
//!              application                               worker
//!    free frames ──────────── fill ────────────────────► copies a received payload in
//!    reads events ◄────────── receive ────────────────── socket, frame, range, packet info
//!    writes a payload ─────── transmit ────────────────► checks the entry, copies the payload out
//!    frame is free again ◄─── completion ─────────────── as soon as it was copied
//! ```
//!
//! One path, a received datagram: the worker takes a frame that the application lent by the fill
//! ring, copies payload and [`PacketInfo`] into it ([`StackEnd::deliver`]), and publishes the whole
//! burst at once ([`StackEnd::publish`]). The application walks the receive ring in arrival order
//! ([`AppEnd::receive`]), and gives each frame back ([`AppEnd::release`]) or sends it
//! ([`AppEnd::submit`]). Nothing in this crate makes a system call after a channel was made; whether
//! the other side has to be woken is the result of `publish` and `commit`.
//!
//! # Trust
//!
//! The application is not trusted. All frames belong to it; the stack keeps a private table of the
//! frames that were lent to it, so that a frame returned twice, an index out of range, or a range
//! outside a frame is noticed, counted ([`StackEnd::misuse`]) and ignored. Entries and packet info
//! are copied out of shared memory once, then checked, then used. The payload is copied to a buffer
//! of the stack before anything looks at it. Indices that claim more entries than a ring holds close
//! the channel ([`ChannelError::Corrupt`]). The memfd is sealed before it is shared: it cannot be
//! truncated under the stack.
//!
//! The stack is trusted by the application, but the same checks run on that side, so that a stale
//! or foreign descriptor is an error and not undefined behaviour.
//!
//! # Frames of the stack's own
//!
//! An application that is trusted, or has the stack in its own process, may work in the frames in which the stack
//! receives and sends ([`StackEnd::create_over`]): payloads are not copied, and each frame that passes is swapped for
//! another. The checks are the same. But the application could write to any frame of that memory at any time, so it
//! is trusted with all that passes through it.
//!
//! # Sleeping
//!
//! A side that is about to sleep arms its flag and looks at its ring once more; a side that has
//! published looks at the other's flag behind a sequentially consistent fence. One of the two
//! sees the other ([`Doorbell`]); the model in `tests/loom.rs` proves it.
#![allow(unsafe_code, reason = "rings and frames lie in memory shared with another process")]

#[cfg(not(loom))]
mod app;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
mod credential;
mod doorbell;
#[cfg(not(loom))]
mod elsewhere;
mod entry;
#[cfg(not(loom))]
mod frames;
mod info;
mod layout;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod memory;
mod ring;
#[cfg(not(loom))]
mod stack;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use app::{AppEnd, Received, SubmitError};
#[cfg(not(loom))]
pub use credential::{Credential, return_name, return_path};
pub use doorbell::Doorbell;
#[cfg(not(loom))]
pub use elsewhere::FrameMemory;
pub use entry::{Entry, Kind, NO_FRAME, STREAMS, SocketId};
#[cfg(not(loom))]
pub use frames::{Cause, Frame, Frames};
pub use info::{About, Fragment, PackedAddr, PackedEnd, PackedInfo, PacketFlags, PacketInfo};
pub use layout::{ChannelError, Geometry, INFO_SIZE, ROOM_SIZE, VERSION};
#[cfg(not(loom))]
pub use memory::SharedMemory;
pub use ring::{Consumer, Producer, RingParts};
#[cfg(not(loom))]
pub use stack::{Delivery, Filled, MemoryUse, Misuse, SentFrame, SentFrames, StackEnd, Transmit};
pub use sync::{AtomicU32, AtomicU64};
#[doc(no_inline)]
pub use weever_wire::numbers::NumberHasher;
#[doc(no_inline)]
pub use weever_wire::stream::{Congestion, StreamOption};

/// A map by the number of a socket, a stream or a queue.
pub type NumberMap<V> = std::collections::HashMap<u32, V, weever_wire::numbers::ByNumber>;
