//! The kinds of blocks that differ in one function only: validators, classifiers and rewriters.
//!
//! Each kind has a second form, `_with`, whose function also gets a state that others change while
//! the graph runs: the latest [`Snapshot`] of it, loaded once per burst.

use weever_graph::Effects;
use weever_packet::{Buffer, Burst, Mask, bits};

use crate::{Block, BlockType, Build, BuildError, Cx, PortDoc, Ports, StateKind};

/// Reads a packet, and cannot run without one: the effects of most validators and classifiers.
pub const READS: Effects = Effects::READS.union(Effects::NEEDS_BUFFER);
/// Reads a packet and records its findings in the metadata.
pub const MARKS: Effects = READS.union(Effects::MARKS);

/// The ports of a validator.
const FALSE_TRUE: &[PortDoc] = &[
    PortDoc { name: "false", doc: "the test failed" },
    PortDoc { name: "true", doc: "the test holds" },
];

/// A block, or why there is none.
pub type Made = Result<Box<dyn Block>, BuildError>;

impl BlockType {
    /// A type with these ports whose blocks only read packets. Everything else is added by struct
    /// update: `BlockType { counters: &["packets"], ..BlockType::new(…) }`.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        ports: &'static [PortDoc],
        make: fn(&Build<'_>) -> Made,
    ) -> BlockType {
        BlockType {
            name,
            summary,
            ports,
            spawns: &[],
            notifies: &[],
            effects: READS,
            state: StateKind::None,
            params: &[],
            counters: &[],
            make,
        }
    }

    /// Whether its blocks only observe packets: they pass every task on by their only port, do not change
    /// packets, and keep a state, as counters and captures do. A run may pass such a node, which then sees
    /// packets when they are some nodes further.
    pub const fn is_observer(&self) -> bool {
        let more = Effects::WRITES
            .union(Effects::MOVES_HEAD)
            .union(Effects::CONSUMES)
            .union(Effects::BLOCKS)
            .union(Effects::MARKS);
        let anywhere = matches!(self.state, StateKind::None | StateKind::Replicated);
        self.ports.len() == 1
            && self.spawns.is_empty()
            && self.notifies.is_empty()
            && self.effects.contains(Effects::STATEFUL)
            && !self.effects.intersects(more)
            && anywhere
    }

    /// A type with the ports `false` and `true` whose blocks only read packets.
    pub const fn validator(
        name: &'static str,
        summary: &'static str,
        make: fn(&Build<'_>) -> Made,
    ) -> BlockType {
        BlockType::new(name, summary, FALSE_TRUE, make)
    }
}

/// A reader's handle to a state that others publish. Loading must neither lock nor allocate.
pub trait Snapshot: Send + 'static {
    /// The shared data that is read.
    type View;

    /// The latest state.
    fn load(&mut self) -> &Self::View;
}

/// A block that tests packets: those which pass leave by `true`, the others by `false`. A test gets
/// the packet to change because some record findings in its metadata; the effects of the block's
/// type say whether it does.
pub fn validator(test: impl Fn(&mut Buffer) -> bool + Send + 'static) -> Made {
    Ok(Box::new(Validator(move |burst: &mut Burst, input| {
        tasks_marked(burst, input, |packet| test(packet))
    })))
}

/// A [`validator`] that also depends on a state.
pub fn validator_with<S: Snapshot>(
    mut state: S,
    test: impl Fn(&S::View, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    Ok(Box::new(Validator(move |burst: &mut Burst, input| {
        let view = state.load();
        tasks_marked(burst, input, |packet| test(view, packet))
    })))
}

/// A block whose function says by which of `N` ports a packet leaves. A task without a packet, and
/// one whose port does not exist, take the last one.
pub fn classifier<const N: usize>(port: impl Fn(&mut Buffer) -> usize + Send + 'static) -> Made {
    Ok(Box::new(Classifier(move |burst: &mut Burst, input| {
        tasks_by_port::<N>(burst, input, |packet| port(packet))
    })))
}

/// A [`classifier`] that also depends on a state.
pub fn classifier_with<const N: usize, S: Snapshot>(
    mut state: S,
    port: impl Fn(&S::View, &mut Buffer) -> usize + Send + 'static,
) -> Made {
    Ok(Box::new(Classifier(move |burst: &mut Burst, input| {
        let view = state.load();
        tasks_by_port::<N>(burst, input, |packet| port(view, packet))
    })))
}

/// A block that changes packets and may lack the room to: those it changed leave by port 0, the
/// others by port 1.
pub fn rewriter(change: impl Fn(&mut Buffer) -> bool + Send + 'static) -> Made {
    Ok(Box::new(Rewriter(move |burst: &mut Burst, input| {
        tasks_marked(burst, input, |packet| change(packet))
    })))
}

/// A [`rewriter`] that also depends on a state.
pub fn rewriter_with<S: Snapshot>(
    mut state: S,
    change: impl Fn(&S::View, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    Ok(Box::new(Rewriter(move |burst: &mut Burst, input| {
        let view = state.load();
        tasks_marked(burst, input, |packet| change(view, packet))
    })))
}

struct Validator<F>(F);

impl<F: FnMut(&mut Burst, Mask) -> Mask + Send> Block for Validator<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.decide(input, (self.0)(burst, input));
    }
}

struct Classifier<F>(F);

impl<const N: usize, F: FnMut(&mut Burst, Mask) -> [Mask; N] + Send> Block for Classifier<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for (port, tasks) in (self.0)(burst, input).into_iter().enumerate() {
            ports.enable(port, tasks);
        }
    }
}

struct Rewriter<F>(F);

impl<F: FnMut(&mut Burst, Mask) -> Mask + Send> Block for Rewriter<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let done = (self.0)(burst, input);
        ports.enable(0, done);
        ports.enable(1, input & !done);
    }
}

/// The tasks of `input` whose packets pass `test`. A task without a packet does not pass.
#[inline(always)]
pub fn tasks_where(burst: &Burst, input: Mask, mut test: impl FnMut(&Buffer) -> bool) -> Mask {
    let mut yes = 0;
    for task in bits(input) {
        yes |= Mask::from(burst.get(task).is_some_and(&mut test)) << task;
    }
    yes
}

/// [`tasks_where`] for tests that record findings.
#[inline(always)]
pub fn tasks_marked(
    burst: &mut Burst,
    input: Mask,
    mut test: impl FnMut(&mut Buffer) -> bool,
) -> Mask {
    let mut yes = 0;
    for task in bits(input) {
        yes |= Mask::from(burst.get_mut(task).is_some_and(&mut test)) << task;
    }
    yes
}

#[inline(always)]
fn tasks_by_port<const N: usize>(
    burst: &mut Burst,
    input: Mask,
    mut port: impl FnMut(&mut Buffer) -> usize,
) -> [Mask; N] {
    let mut masks = [0; N];
    for task in bits(input) {
        let port = burst.get_mut(task).map_or(N - 1, &mut port);
        masks[port.min(N - 1)] |= 1 << task;
    }
    masks
}
