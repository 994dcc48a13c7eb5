//! Validators, classifiers and rewriters that depend on the host's network, and the tables that
//! blocks look up of a packet.

use std::sync::Arc;

use weever_block::{
    Block, Buffer, Build, BuildError, Burst, Cx, Made, Mask, Nanos, ParamDoc, Ports, Priority,
    Snapshot, classifier_with, rewriter_with, validator_with,
};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;

use crate::host::{Network, StateReader};

/// The host's network, for one reader.
pub(crate) struct NetworkState(StateReader);

impl NetworkState {
    /// A reader of a host's network.
    pub(crate) fn of(network: &Network) -> NetworkState {
        NetworkState(network.reader())
    }
}

impl Snapshot for NetworkState {
    type View = NetState;

    #[inline(always)]
    fn load(&mut self) -> &NetState {
        self.0.load()
    }
}

/// The host's network.
pub(crate) fn network(build: &Build<'_>) -> Result<Arc<Network>, BuildError> {
    build.env::<Network>("the host's network")
}

pub(crate) fn network_state(build: &Build<'_>) -> Result<NetworkState, BuildError> {
    Ok(NetworkState(network(build)?.reader()))
}

/// A validator that depends on the host's network as it is now.
pub(crate) fn network_validator(
    build: &Build<'_>,
    test: impl Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    validator_with(network_state(build)?, test)
}

/// A classifier that depends on the host's network as it is now.
pub(crate) fn network_classifier<const N: usize>(
    build: &Build<'_>,
    port: impl Fn(&NetState, &mut Buffer) -> usize + Send + 'static,
) -> Made {
    classifier_with::<N, _>(network_state(build)?, port)
}

/// A rewriter that depends on the host's network as it is now.
pub(crate) fn network_rewriter(
    build: &Build<'_>,
    change: impl Fn(&NetState, &mut Buffer) -> bool + Send + 'static,
) -> Made {
    rewriter_with(network_state(build)?, change)
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

/// The packet from its link header on, even if that was stripped.
#[inline(always)]
pub(crate) fn whole(packet: &Buffer) -> &[u8] {
    packet.at(packet.meta().l2.min(packet.head()))
}

/// What finds another thread at a state that they share looks again after this: nobody has access for long.
pub(crate) const LOOK_AGAIN: Nanos = 50_000;

/// Work that is done periodically.
pub(crate) trait PeriodicTask: Send {
    /// Does the work that is due.
    fn run_due(&mut self, cx: &mut Cx<'_>);
}

/// The parameter of such a block: milliseconds between two looks, `default` unless the graph says
/// otherwise.
pub(crate) const fn period(default: &'static str, doc: &'static str) -> ParamDoc {
    ParamDoc { name: "period", default, doc }
}

/// A block that looks once per `period`. Spawn edge `again` leads back to it; its task leaves by
/// port 0.
pub(crate) fn periodic(
    build: &Build<'_>,
    again: usize,
    task: impl PeriodicTask + 'static,
) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    Ok(Box::new(Periodic { period: period * weever_net::MILLIS, again, task }))
}

struct Periodic<T> {
    period: Nanos,
    again: usize,
    task: T,
}

impl<T: PeriodicTask> Block for Periodic<T> {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        self.task.run_due(cx);
        cx.spawn_new(self.again, None, self.period, Priority::Low);
        ports.enable(0, input);
    }
}
