//! What validators and classifiers have in common: one pass over the tasks of a burst.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;

use crate::host::{Network, StateReader};

/// Looks at a packet, and cannot run without one.
pub(crate) const READS: Effects = Effects::READS.union(Effects::NEEDS_BUFFER);
/// Looks at a packet and records in its metadata what it found.
pub(crate) const MARKS: Effects = READS.union(Effects::MARKS);

/// The ports of a `boolean` node.
pub(crate) const BOOLEAN: &[PortDoc] = &[
    PortDoc { name: "false", doc: "the test failed" },
    PortDoc { name: "true", doc: "the test holds" },
];

/// How a block type makes its blocks.
pub(crate) type Make = fn(&Build<'_>) -> Result<Box<dyn Block>, BuildError>;

/// A block type with these ports that only reads; other parts by struct update.
pub(crate) const fn reader(
    name: &'static str,
    summary: &'static str,
    ports: &'static [PortDoc],
    make: Make,
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
pub(crate) const fn boolean(name: &'static str, summary: &'static str, make: Make) -> BlockType {
    reader(name, summary, BOOLEAN, make)
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

/// A validator: the packets that pass leave by `true`.
pub(crate) struct Validate<F>(pub(crate) F);

impl<F: Fn(&Buffer) -> bool + Send> Block for Validate<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.decide(input, tasks_where(burst, input, |packet| (self.0)(packet)));
    }
}

/// A step that may fail for want of room: the packets that it could change leave by port 0, the
/// others by port 1.
pub(crate) struct Change<F>(pub(crate) F);

impl<F: Fn(&mut Buffer) -> bool + Send> Block for Change<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let done = tasks_marked(burst, input, |packet| (self.0)(packet));
        ports.enable(0, done);
        ports.enable(1, input & !done);
    }
}

/// A validator that records what it found.
pub(crate) struct Mark<F>(pub(crate) F);

impl<F: Fn(&mut Buffer) -> bool + Send> Block for Mark<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.decide(input, tasks_marked(burst, input, |packet| (self.0)(packet)));
    }
}

/// A classifier: the function says by which port a packet leaves. A task without a packet takes
/// the last one.
pub(crate) struct Classify<const N: usize, F>(pub(crate) F);

impl<const N: usize, F: Fn(&Buffer) -> usize + Send> Block for Classify<N, F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let mut masks = [0; N];
        for task in bits(input) {
            let port = burst.get(task).map_or(N - 1, &self.0);
            masks[port.min(N - 1)] |= 1 << task;
        }
        for (port, mask) in masks.into_iter().enumerate() {
            ports.enable(port, mask);
        }
    }
}

/// A validator that depends on the host's network as it is now.
pub(crate) struct Judge<F> {
    state: StateReader,
    test: F,
}

/// Makes a [`Judge`].
pub(crate) fn judge<F>(build: &Build<'_>, test: F) -> Result<Box<dyn Block>, BuildError>
where
    F: Fn(&NetState, &Buffer) -> bool + Send + 'static,
{
    Ok(Box::new(Judge { state: network(build)?.reader(), test }))
}

impl<F: Fn(&NetState, &Buffer) -> bool + Send> Block for Judge<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, test) = (self.state.load(), &self.test);
        ports.decide(input, tasks_where(burst, input, |packet| test(state, packet)));
    }
}

/// [`Judge`] for tests that record what they found.
pub(crate) struct Record<F> {
    state: StateReader,
    test: F,
}

/// Makes a [`Record`].
pub(crate) fn record<F>(build: &Build<'_>, test: F) -> Result<Box<dyn Block>, BuildError>
where
    F: Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
{
    Ok(Box::new(Record { state: network(build)?.reader(), test }))
}

impl<F: Fn(&NetState, &mut Buffer) -> bool + Send> Block for Record<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, test) = (self.state.load(), &self.test);
        ports.decide(input, tasks_marked(burst, input, |packet| test(state, packet)));
    }
}

/// [`Change`] for steps that depend on the host's network as it is now.
pub(crate) struct Amend<F> {
    state: StateReader,
    step: F,
}

/// Makes an [`Amend`].
pub(crate) fn amend<F>(build: &Build<'_>, step: F) -> Result<Box<dyn Block>, BuildError>
where
    F: Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
{
    Ok(Box::new(Amend { state: network(build)?.reader(), step }))
}

impl<F: Fn(&NetState, &mut Buffer) -> bool + Send> Block for Amend<F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, step) = (self.state.load(), &self.step);
        let done = tasks_marked(burst, input, |packet| step(state, packet));
        ports.enable(0, done);
        ports.enable(1, input & !done);
    }
}

/// A classifier that depends on the host's network as it is now, and may record what it found.
pub(crate) struct Sort<const N: usize, F> {
    state: StateReader,
    port: F,
}

/// Makes a [`Sort`].
pub(crate) fn sort<const N: usize, F>(
    build: &Build<'_>,
    port: F,
) -> Result<Box<dyn Block>, BuildError>
where
    F: Fn(&NetState, &Buffer) -> usize + Send + 'static,
{
    sort_marking::<N, _>(build, move |state, packet| port(state, packet))
}

/// Makes a [`Sort`] that records what it found.
pub(crate) fn sort_marking<const N: usize, F>(
    build: &Build<'_>,
    port: F,
) -> Result<Box<dyn Block>, BuildError>
where
    F: Fn(&NetState, &mut Buffer) -> usize + Send + 'static,
{
    Ok(Box::new(Sort::<N, F> { state: network(build)?.reader(), port }))
}

impl<const N: usize, F: Fn(&NetState, &mut Buffer) -> usize + Send> Block for Sort<N, F> {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, mut masks) = (self.state.load(), [0; N]);
        for task in bits(input) {
            let port = burst.get_mut(task).map_or(N - 1, |packet| (self.port)(state, packet));
            masks[port.min(N - 1)] |= 1 << task;
        }
        for (port, mask) in masks.into_iter().enumerate() {
            ports.enable(port, mask);
        }
    }
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
