//! The kinds of blocks that differ in one function only: validators, classifiers and rewriters, each
//! with or without the host's network state.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;

use crate::host::Network;

/// Reads a packet, and cannot run without one.
pub(crate) const READS: Effects = Effects::READS.union(Effects::NEEDS_BUFFER);
/// Reads a packet and records in its metadata what it found.
pub(crate) const MARKS: Effects = READS.union(Effects::MARKS);

/// The ports of a validator.
const FALSE_TRUE: &[PortDoc] = &[
    PortDoc { name: "false", doc: "the test failed" },
    PortDoc { name: "true", doc: "the test holds" },
];

/// A block, or why there is none.
pub(crate) type Made = Result<Box<dyn Block>, BuildError>;

/// A block type with these ports that only reads; other fields by struct update.
pub(crate) const fn block_type(
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

/// A block type with ports `false` and `true` that only reads.
pub(crate) const fn validator_type(
    name: &'static str,
    summary: &'static str,
    make: fn(&Build<'_>) -> Made,
) -> BlockType {
    block_type(name, summary, FALSE_TRUE, make)
}

/// A block that tests packets: those which pass leave by `true`, the others by `false`. A test gets
/// the packet to change because some record in its metadata what they found; the effects of the
/// block's type say whether it does.
pub(crate) fn validator(test: impl Fn(&mut Buffer) -> bool + Send + 'static) -> Made {
    Ok(Box::new(Validator(move |burst: &mut Burst, input| tasks_marked(burst, input, &test))))
}

/// A [`validator`] that depends on the host's network as it is now.
pub(crate) fn network_validator(
    build: &Build<'_>,
    test: impl Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    let mut reader = network(build)?.reader();
    Ok(Box::new(Validator(move |burst: &mut Burst, input| {
        let state = reader.load();
        tasks_marked(burst, input, |packet| test(state, packet))
    })))
}

/// A block whose function says by which of `N` ports a packet leaves. A task without a packet takes
/// the last one.
pub(crate) fn classifier<const N: usize>(
    port: impl Fn(&mut Buffer) -> usize + Send + 'static,
) -> Made {
    Ok(Box::new(Classifier(move |burst: &mut Burst, input| {
        tasks_by_port::<N>(burst, input, &port)
    })))
}

/// A [`classifier`] that depends on the host's network as it is now.
pub(crate) fn network_classifier<const N: usize>(
    build: &Build<'_>,
    port: impl Fn(&NetState, &mut Buffer) -> usize + Send + 'static,
) -> Made {
    let mut reader = network(build)?.reader();
    Ok(Box::new(Classifier(move |burst: &mut Burst, input| {
        let state = reader.load();
        tasks_by_port::<N>(burst, input, |packet| port(state, packet))
    })))
}

/// A block that changes packets and may lack the room to: those it changed leave by port 0, the
/// others by port 1.
pub(crate) fn rewriter(change: impl Fn(&mut Buffer) -> bool + Send + 'static) -> Made {
    Ok(Box::new(Rewriter(move |burst: &mut Burst, input| tasks_marked(burst, input, &change))))
}

/// A [`rewriter`] that depends on the host's network as it is now.
pub(crate) fn network_rewriter(
    build: &Build<'_>,
    change: impl Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    let mut reader = network(build)?.reader();
    Ok(Box::new(Rewriter(move |burst: &mut Burst, input| {
        let state = reader.load();
        tasks_marked(burst, input, |packet| change(state, packet))
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
pub(crate) fn tasks_where(
    burst: &Burst,
    input: Mask,
    mut test: impl FnMut(&Buffer) -> bool,
) -> Mask {
    let mut yes = 0;
    for task in bits(input) {
        yes |= Mask::from(burst.get(task).is_some_and(&mut test)) << task;
    }
    yes
}

/// [`tasks_where`] for tests that record what they found.
#[inline(always)]
pub(crate) fn tasks_marked(
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

/// The host's network.
pub(crate) fn network(build: &Build<'_>) -> Result<Arc<Network>, BuildError> {
    build.env::<Network>("the host's network")
}

/// The interface of a packet, as far as it is known and still there.
#[inline(always)]
pub(crate) fn interface<'a>(state: &'a NetState, packet: &Buffer) -> Option<&'a Interface> {
    state.interface(IfaceId(packet.meta().iface))
}

/// The packet's bytes between two recorded offsets, as far as they are there.
#[inline(always)]
pub(crate) fn between(packet: &Buffer, from: u16, to: u16) -> &[u8] {
    let bytes = packet.at(from);
    &bytes[..bytes.len().min(usize::from(to.saturating_sub(from)))]
}
