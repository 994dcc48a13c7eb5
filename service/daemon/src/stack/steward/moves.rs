//! TCP connections move with the filters that send their segments.
//!
//! Before filters change, the workers behind the next queues of the connections concerned are told to hold
//! what arrives there, and when the filters have changed, the state follows between two segments (design
//! notes 0036 and 0055). A filter of one connection names it; for wider ones the workers list their
//! connections, and the plan says where each will arrive. Where a hash that is not known decides that,
//! connections follow their segments by themselves, a little later.
//!
//! Each link has a mover, and a flow's name does not tell by which link its packets come. So a mover leaves
//! connections alone whose address is another link's: they have filters of their own there.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::{FlowEnds, FlowKey};
use weever_blocks_std::host::{Network, Secret};
use weever_blocks_std::tcp::flow_of;
use weever_engine::{FlowLists, FlowMoves, ListedFlows, Publisher};
use weever_host::HostHandle;
use weever_net::state::NetConfig;
use weever_plan::config::{Configuration, Rule};
use weever_plan::flow::Conj;
use weever_plan::map::Places;
use weever_plan::nic::Nic;
use weever_plan::watch::FiveTuple;

use super::filters::Filters;

/// The node whose flows are connections.
const ENDPOINT: &str = "RxL4TCPEndpoint";
/// How long a worker may take to notice that connections leave it, or to list them. A turn takes
/// microseconds, and a list of 100,000 some hundred turns.
const PATIENCE: Duration = Duration::from_millis(200);
/// The additional time for each connection that leaves a worker: 256 begin to leave in a turn, for which a
/// busy worker may need 2 ms.
const PER_CONNECTION: Duration = Duration::from_micros(8);

/// Moves connections to the workers behind their queues.
pub(super) struct ConnectionMover {
    link: u16,
    network: Arc<Network>,
    publisher: Arc<Publisher>,
    secret: Secret,
    workers: u16,
    present: Filters,
    /// The lists that workers make for the filters that change next, and when they were asked for.
    asked: Option<(FlowLists, Instant)>,
    /// The listed connections, until those filters have changed.
    listed: Vec<(u16, FlowEnds)>,
    /// The last change failed, and is made again; its filters are not known.
    has_failed: bool,
    /// Connections whose filters are about to change.
    moving: Option<FlowMoves>,
}

impl ConnectionMover {
    /// The connections by link number `link` of a host.
    pub(super) fn new(link: u16, host: &HostHandle) -> ConnectionMover {
        ConnectionMover {
            link,
            network: Arc::clone(&host.network),
            publisher: Arc::clone(&host.publisher),
            secret: *host.env.get_or_default::<Secret>(),
            workers: host.workers.len() as u16,
            present: Filters::default(),
            asked: None,
            listed: Vec::new(),
            has_failed: false,
            moving: None,
        }
    }

    /// Prepares a change of these filters and perhaps others. If some of them take many connections, workers
    /// list theirs: returns `false` until all have answered or are late.
    pub(super) fn expect(&mut self, nic: &Nic, changing: &[(usize, Rule)]) -> bool {
        let is_wide = |(table, rule): &(usize, Rule)| Filters::is_wide(nic, *table, rule);
        if !self.has_failed && !changing.iter().any(is_wide) {
            self.asked = None;
            return true;
        }
        let Some((lists, since)) = self.asked.take() else {
            let owners = self.publisher.flow_owners(ENDPOINT);
            let has_any = owners.is_ok_and(|owners| !owners.is_empty());
            let lists = has_any.then(|| self.publisher.list_flows(ENDPOINT)).and_then(Result::ok);
            self.asked = lists.map(|lists| (lists, Instant::now()));
            return self.asked.is_none();
        };
        if !lists.is_complete() && since.elapsed() < PATIENCE {
            self.asked = Some((lists, since));
            return false;
        }
        let ListedFlows { flows, late, .. } = lists.wait(Duration::ZERO);
        if late > 0 {
            tracing::debug!(late, "workers are late: their connections follow their filters later");
        }
        self.listed = flows;
        true
    }

    /// The filters become those of `next`: connections that will arrive at another worker begin to move.
    /// Blocks until their workers have noticed.
    pub(super) fn begin(&mut self, nic: &Nic, next: &Configuration) {
        self.moving = None;
        let moves = self.to_move(nic, next);
        if moves.is_empty() {
            return;
        }
        match self.publisher.begin_moves(ENDPOINT, &moves) {
            Ok(moving) => {
                if !moving.wait_begun(PATIENCE + PER_CONNECTION * moves.len() as u32) {
                    tracing::debug!("a worker is late: connections follow their filters later");
                }
                self.moving = Some(moving);
            }
            Err(error) => tracing::debug!("connections follow their filters later: {error}"),
        }
    }

    /// The filters are these now.
    pub(super) fn finish(&mut self, nic: &Nic, present: &Configuration) {
        self.present = Filters::of(nic, present);
        self.has_failed = false;
        self.let_go();
    }

    /// The filters may be either. Connections go where they were to go, and back to where their segments
    /// arrive.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
        self.let_go();
    }

    /// The states of moving connections are sent as soon as their workers have run all packets that
    /// have arrived.
    fn let_go(&mut self) {
        self.listed = Vec::new();
        if let Some(moving) = self.moving.take() {
            moving.redirected();
            let so_far = moving.progress();
            tracing::debug!(?so_far, "connections move with their filters");
        }
    }

    /// The connections that a changed filter takes or took, with the workers where they will arrive.
    fn to_move(&self, nic: &Nic, next: &Configuration) -> Vec<(FlowKey, u16)> {
        let Ok(owners) = self.publisher.flow_owners(ENDPOINT) else { return Vec::new() };
        let network = self.network.state();
        let mut concerned: HashMap<FlowKey, Conj> = HashMap::new();
        let mut wide = Vec::new();
        for packets in self.present.changes(&Filters::of(nic, next)) {
            let Some(tuple) = FiveTuple::of(&packets) else {
                wide.push(packets);
                continue;
            };
            let key = flow_of(&self.secret, tuple.dst, tuple.src);
            if owners.owner(key).is_some() && is_of(network.config(), self.link, tuple.dst.ip()) {
                concerned.extend(tuple.packets().map(|packets| (key, packets)));
            }
        }
        if !wide.is_empty() {
            let flows = self.listed.iter().map(|(_, flow)| *flow);
            let all = of_link(network.config(), self.link, flows).into_iter();
            let taken = |packets: &Conj| wide.iter().any(|wide| !wide.disjoint(packets));
            concerned.extend(all.filter(|(_, packets)| taken(packets)));
        }
        if concerned.is_empty() {
            return Vec::new();
        }
        let mut places = Places::new(nic, next);
        // Segments in pieces have no ports for a filter; nearly none are.
        let claims = nic.claims();
        let next_worker = |(key, packets): (FlowKey, Conj)| {
            let worker = u16::try_from(places.of(&claims.part(packets)).queue()?).ok()?;
            (worker < self.workers).then_some((key, worker))
        };
        concerned.into_iter().filter_map(next_worker).collect()
    }
}

/// The flows at addresses of a link, with their packets from the peer.
fn of_link(
    network: &NetConfig,
    link: u16,
    flows: impl Iterator<Item = FlowEnds>,
) -> Vec<(FlowKey, Conj)> {
    let packets = |FlowEnds { key, protocol, local, remote }: FlowEnds| {
        Some((key, FiveTuple { protocol, src: remote, dst: local }.packets()?))
    };
    flows.filter(|flow| is_of(network, link, flow.local.ip())).filter_map(packets).collect()
}

/// Whether an interface on the link has the address.
fn is_of(network: &NetConfig, link: u16, address: IpAddr) -> bool {
    let mut interfaces = network.interfaces().iter().filter(|iface| iface.link == link);
    interfaces.any(|iface| match address {
        IpAddr::V4(address) => iface.v4.is_ours(address),
        IpAddr::V6(address) => iface.v6.is_ours(address),
    })
}

#[cfg(test)]
mod tests {
    use weever_net::addr::Locals;
    use weever_net::iface::{IfaceId, Interface};
    use weever_wire::MacAddr;

    use super::*;

    /// The names, their places here, of the connections to these addresses that the mover of a link moves.
    fn moved(link: u16, to: [&str; 3]) -> Vec<FlowKey> {
        let mut network = NetConfig::new();
        for (number, address) in ["10.1.0.1/24", "10.2.0.1/24"].into_iter().enumerate() {
            let number = number as u16;
            let v4 = Locals::new(&[address.parse().unwrap()]);
            let mac = MacAddr([2, 0, 0, 0, 0, number as u8]);
            let iface = Interface::new(IfaceId(number), format!("if{number}"), number, mac);
            network.add_interface(iface.with_v4(v4)).unwrap();
        }
        let flow = |(number, local): (usize, &str)| FlowEnds {
            key: FlowKey::of_hash(number as u64),
            protocol: 6,
            local: local.parse().unwrap(),
            remote: "10.9.0.9:4000".parse().unwrap(),
        };
        let flows = to.into_iter().enumerate().map(flow);
        of_link(&network, link, flows).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_link_moves_the_connections_of_its_own_addresses() {
        let to = ["10.1.0.1:80", "10.2.0.1:80", "10.1.0.1:81"];
        assert_eq!(moved(0, to), [0, 2].map(FlowKey::of_hash));
        assert_eq!(moved(1, to), [1].map(FlowKey::of_hash));
        assert_eq!(moved(2, to), []);
    }
}
