//! Prepares nodes: numbers ports and edges as the block does, and assigns counters.

use std::sync::Arc;

use weever_block::{BlockType, FlowOwners, Registry, TABLE};
use weever_graph::{Edge, Graph, Node, NodeId, NodeKind};

use super::ids::{Entry, Homes};
use super::maker::CompileError;
use super::program::{End, FlowPlan, NodePlan, SpawnEdge};
use crate::counters::{Counter, CounterKind, Layout, leads_nowhere, total};

/// The label of counters of tasks that are handed over to the owner of their flow.
const TO_OWNER: &str = "to the owner";

/// A node prepared for being placed in entries.
pub(super) struct PreparedNode {
    pub(super) plan: NodePlan,
    pub(super) block_type: Option<&'static BlockType>,
    /// For each port of the graph's node, the number that the block gives it.
    pub(super) ports: Vec<u32>,
    /// Counts incoming tasks; the ports' counters follow.
    pub(super) counter: Counter,
    /// Per port, in the block's numbering: the counter of packets that end there, and why they do.
    pub(super) drops: Vec<Option<(Counter, End)>>,
    pub(super) needs_buffer: bool,
}

pub(super) struct NodePreparer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) registry: &'a Registry,
    pub(super) homes: Homes,
    /// By node.
    pub(super) entry_of: &'a [Option<Entry>],
    pub(super) layout: &'a mut Layout,
}

impl NodePreparer<'_> {
    pub(super) fn node(&mut self, id: NodeId) -> Result<PreparedNode, CompileError> {
        let node = self.graph.node(id);
        match node.kind {
            NodeKind::Config(_) => Err(CompileError::NotConfigured { node: node.name.clone() }),
            NodeKind::Operator(_) => Ok(self.prepare(id, None)),
            NodeKind::Function | NodeKind::Table(_) => {
                let block_type = self.registry.check(node)?;
                Ok(self.prepare(id, Some(block_type)))
            }
        }
    }

    fn prepare(&mut self, id: NodeId, block_type: Option<&'static BlockType>) -> PreparedNode {
        let node = self.graph.node(id);
        let name: Arc<str> = node.name.as_str().into();
        let ports = port_numbers(node, block_type);
        let counter = self.layout.add(&name, CounterKind::Packets, "");
        for place in graph_ports(&ports) {
            self.layout.add(&name, CounterKind::Port, &node.ports[place].name);
        }
        self.layout.add(&name, CounterKind::Timer, "timers");
        let drops = self.drops(node, &name, &ports);
        let plan = self.plan(id, &name, block_type);
        let effects = node.effects.or(block_type.map(|t| t.effects)).unwrap_or_default();
        let needs_buffer = effects.contains(weever_graph::Effects::NEEDS_BUFFER);
        PreparedNode { plan, block_type, ports, counter, drops, needs_buffer }
    }

    fn plan(
        &mut self,
        id: NodeId,
        name: &Arc<str>,
        block_type: Option<&'static BlockType>,
    ) -> NodePlan {
        let node = self.graph.node(id);
        let spawn = |label: &&str| self.spawn_edge(node, name, label);
        let spawns = block_type.map_or(&[][..], |t| t.spawns).iter().filter_map(spawn).collect();
        let mut add = |kind| self.layout.add(name, kind, "");
        let no_buffer = add(CounterKind::NoBuffer);
        let outbox_full = add(CounterKind::OutboxFull);
        let block_full = add(CounterKind::BlockFull);
        let own = block_full.plus(1);
        for label in block_type.map_or(&[][..], |t| t.counters) {
            self.layout.add(name, CounterKind::Own, label);
        }
        NodePlan {
            name: name.clone(),
            entry: self.entry_of[id.index()],
            spawns,
            notifies: self.notify_targets(node, block_type),
            own,
            no_buffer,
            outbox_full,
            block_full,
            flows: None,
        }
    }

    /// Adds owners of flows to a node.
    pub(super) fn add_flows(&mut self, prepared: &mut PreparedNode, owners: Arc<FlowOwners>) {
        let name = prepared.plan.name.clone();
        let handed_over = self.layout.add(&name, CounterKind::Spawned, TO_OWNER);
        let ring_full = self.layout.add(&name, CounterKind::RingFull, TO_OWNER);
        prepared.plan.flows = Some(Box::new(FlowPlan { owners, handed_over, ring_full }));
    }

    fn spawn_edge(&mut self, node: &Node, name: &Arc<str>, label: &str) -> Option<SpawnEdge> {
        let edge = node.spawns.iter().find(|e| e.label == label)?;
        let entry = self.entry_of[edge.target.index()]?;
        let spawned = self.layout.add(name, CounterKind::Spawned, label);
        let full = self.layout.add(name, CounterKind::SpawnFull, label);
        let home = self.homes.of(self.graph.node(edge.target), self.registry);
        let ring_full = match home {
            Some(_) => self.layout.add(name, CounterKind::RingFull, label),
            None => full,
        };
        Some(SpawnEdge { entry, spawned, full, ring_full })
    }

    /// A notify edge's target is always an entry.
    fn notify_targets(&self, node: &Node, block_type: Option<&'static BlockType>) -> Box<[Entry]> {
        let target = |label: &&str| node.notifies.iter().find(|e| e.label == *label);
        let labels = block_type.map_or(&[][..], |t| t.notifies).iter();
        let entry = |edge: &Edge| self.entry_of[edge.target.index()];
        labels.filter_map(target).filter_map(entry).collect()
    }

    /// A port without a stated reason that leads nowhere gets a reason that says so.
    fn drops(
        &mut self,
        node: &Node,
        name: &Arc<str>,
        ports: &[u32],
    ) -> Vec<Option<(Counter, End)>> {
        let mut add = |reason: &str| self.layout.add(name, CounterKind::Drop, reason);
        let drop = |place: usize| {
            let port = &node.ports[place];
            match node.drop_reason(&port.name) {
                Some(reason) => Some((add(reason), End::Stated)),
                None if node.ends_at(&port.name) => Some((total::USED, End::Used)),
                None if port.targets.is_empty() => {
                    Some((add(&leads_nowhere(&port.name)), End::Nowhere))
                }
                None => None,
            }
        };
        graph_ports(ports).map(drop).collect()
    }
}

/// A table without a type of its own numbers its ports as the graph does; every other block by
/// its type's names. `Registry::build` has checked that they correspond.
fn port_numbers(node: &Node, block_type: Option<&'static BlockType>) -> Vec<u32> {
    let in_graph = 0..node.ports.len() as u32;
    match block_type.filter(|t| t.name != TABLE) {
        None => in_graph.collect(),
        Some(t) => {
            let number = |name: &str| t.ports.iter().position(|p| p.name == name);
            let by_name = |i: u32| number(&node.ports[i as usize].name).map_or(i, |n| n as u32);
            in_graph.map(by_name).collect()
        }
    }
}

/// The graph's ports in the order of the block's numbers.
fn graph_ports(ports: &[u32]) -> impl Iterator<Item = usize> + '_ {
    let place = |n: u32| ports.iter().position(|p| *p == n);
    (0..ports.len() as u32).filter_map(place)
}
