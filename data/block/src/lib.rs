//! What a block is.
//!
//! A [`Block`] is an instance of a [`BlockType`] in a running graph. The engine calls it once per
//! burst with the mask of the tasks that reached it; the block says by which port each of them
//! leaves. Whatever else it wants (start a task, block one, take a packet away, wake others) it
//! asks of its [`Cx`]; the engine carries that out. A block therefore never sees the engine, and
//! the same block runs under every engine.
//!
//! To add one, copy `blocks/std/src/counter`, and register its `BlockType`.
#![forbid(unsafe_code)]

mod block;
mod block_type;
mod cx;
mod env;
mod registry;

pub use block::{Block, Ports, State};
pub use block_type::{
    BlockType, Build, BuildError, MAX_WAYS, ParamDoc, PortDoc, Shortcut, ShortcutType, StateKind,
    Way,
};
pub use cx::{Claim, Cx, Priority, Requests, SpawnRequest};
pub use env::Env;
pub use registry::{ENDS, Registry, TABLE, WORKER};
pub use weever_packet::{BURST, Buffer, Burst, Mask, Nanos, bits};
