//! The interface of blocks.
//!
//! A [`Block`] is an instance of a [`BlockType`] in a running graph. The engine calls it once per
//! burst with the mask of the tasks that reached it; the block says by which port each of them
//! leaves. All other actions (start a task, block one, take a packet away, wake others) it requests
//! from its [`Cx`]; the engine carries them out. A block therefore never sees the engine, and the
//! same block runs under every engine.
//!
//! To add one, describe it in a [`BlockType`] and add that to the [`Registry`] that a stack is built
//! with; `examples/sampler` does it from outside this repository's folders.
#![forbid(unsafe_code)]

mod block;
mod block_type;
mod cx;
mod flows;
mod kinds;
mod registry;
mod run;
mod shares;

pub use block::{Block, Ports, State};
pub use block_type::{
    BlockType, Build, BuildError, Env, MAX_COUNTERS, MAX_WAYS, ParamDoc, PortDoc, Shortcut,
    StateKind, Ways,
};
pub use cx::{Claim, Cx, Downstream, Priority, Requests, SpawnRequest, When};
pub use flows::{FlowClaim, FlowEnds, FlowKey, FlowOwner, FlowOwners, MayMove};
pub use kinds::{
    MARKS, Made, READS, Snapshot, classifier, classifier_with, rewriter, rewriter_with,
    tasks_marked, tasks_where, validator, validator_with,
};
pub use registry::{BY_PREDICATE, PARTS, Registry, TABLE, WORKER};
pub use run::{CompiledRun, NodeWay, OwnCounter, RunCompiler, RunProgram, RunStart};
pub use weever_packet::{BURST, Buffer, Burst, Mask, Nanos, bits, number_of};
