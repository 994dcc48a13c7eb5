//! Clusters as single boxes, so that a large graph fits a screen.
//!
//! Folding makes a smaller graph, which is drawn like any other: an innermost cluster becomes one node,
//! and edges that leave it at the same port for the same place become one.

use std::collections::{HashMap, HashSet};

use super::extras::Extras;
use super::wires::Cell;
use crate::{Attr, Edge, Graph, Node, NodeId, NodeKind, Port, PortId};

/// Represents every cluster in a list of those to unfold.
pub const EVERY: &str = "*";

/// Port of a folded cluster for packets dropped inside.
const DROPS: &str = "drops";
/// The number of names shown on an edge that several edges became.
const NAMES: usize = 3;

/// A graph with folded clusters, and its relation to the whole graph.
pub(super) struct FoldedGraph {
    pub(super) graph: Graph,
    origins: Vec<Origin>,
}

/// The origin of a node of the folded graph.
enum Origin {
    Node(NodeId),
    Cluster(Inside),
}

/// An edge: where it starts at its node, the name there, and the node it leads to.
type Way<'a> = (Cell, &'a str, NodeId);

/// A folded cluster.
#[derive(Default)]
struct Inside {
    /// Its nodes.
    nodes: Vec<NodeId>,
    /// Where packets come in: ports and spawn edges of other nodes. The sources inside count too.
    entries: Vec<(NodeId, Cell)>,
    /// The original cells of each of its own cells.
    ports: Vec<Vec<(NodeId, Cell)>>,
    spawns: Vec<Vec<(NodeId, Cell)>>,
}

/// A name that is of no cluster which could be unfolded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph has no innermost cluster `{name}`")]
pub struct UnknownCluster {
    name: String,
    known: Vec<String>,
}

impl UnknownCluster {
    /// The remedy.
    pub fn remedy(&self) -> String {
        if self.known.is_empty() {
            return "it has no clusters at all".into();
        }
        let known = self.known.iter().map(String::as_str);
        let closest = weever_suggest::did_you_mean(&self.name, known);
        closest.unwrap_or_else(|| format!("it has {}", self.known.join(", ")))
    }
}

/// Whether every name in `unfold` is of a cluster.
pub(super) fn check(graph: &Graph, unfold: &[String]) -> Result<(), UnknownCluster> {
    let homes = homes(graph);
    let is_known = |name: &str| {
        let mut nodes = graph.iter().zip(&homes).filter(|(_, home)| home.is_some());
        name == EVERY || nodes.any(|((_, node), home)| is_called(node, home.as_deref(), name))
    };
    match unfold.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let mut known: Vec<String> = Vec::new();
            for home in homes.into_iter().flatten() {
                if !known.contains(&home) {
                    known.push(home);
                }
            }
            Err(UnknownCluster { name: name.clone(), known })
        }
    }
}

/// Whether a node's innermost cluster, with this full name, is called so.
fn is_called(node: &Node, home: Option<&str>, name: &str) -> bool {
    home == Some(name) || node.clusters.last().is_some_and(|own| own == name)
}

/// By node, the full name of the innermost cluster that it is in: the names of the clusters around
/// it and its own, without separator. None for a node that has clusters beside it.
fn homes(graph: &Graph) -> Vec<Option<String>> {
    let mut outer: HashSet<&[String]> = HashSet::new();
    for (_, node) in graph.iter() {
        outer.extend((0..node.clusters.len()).map(|depth| &node.clusters[..depth]));
    }
    let is_inner = |clusters: &[String]| !clusters.is_empty() && !outer.contains(clusters);
    let home = |node: &Node| is_inner(&node.clusters).then(|| node.clusters.concat());
    graph.iter().map(|(_, node)| home(node)).collect()
}

/// Folds every cluster but those in `unfold`, each given by its full name or its own.
pub(super) fn fold(graph: &Graph, unfold: &[String]) -> FoldedGraph {
    let stays = |home: &str, node: &Node| {
        unfold.iter().any(|name| name == EVERY || is_called(node, Some(home), name))
    };
    let mut folded = Graph::new(graph.name.clone());
    let (mut origins, mut known): (Vec<Origin>, HashMap<String, NodeId>) = Default::default();
    let mut images = Vec::new();
    for ((id, node), home) in graph.iter().zip(homes(graph)) {
        let Some(name) = home.filter(|name| !stays(name, node)) else {
            images.push(folded.add(node.clone()));
            origins.push(Origin::Node(id));
            continue;
        };
        let image = *known.entry(name.clone()).or_insert_with(|| {
            origins.push(Origin::Cluster(Inside::default()));
            folded.add(cluster(name, &node.clusters))
        });
        images.push(image);
        if let Origin::Cluster(inside) = &mut origins[image.index()] {
            inside.nodes.push(id);
        }
    }
    let mut folded = FoldedGraph { graph: folded, origins };
    for (id, _) in graph.iter() {
        folded.join(graph, id, &images);
    }
    folded
}

fn cluster(name: String, clusters: &[String]) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.clusters = clusters[..clusters.len() - 1].to_vec();
    node
}

impl FoldedGraph {
    /// Gives the image of a node its edges.
    fn join(&mut self, graph: &Graph, id: NodeId, images: &[NodeId]) {
        let (node, image) = (graph.node(id), images[id.index()]);
        let (mut flows, mut spawns): (Vec<Way<'_>>, Vec<Way<'_>>) = Default::default();
        for (i, port) in node.ports.iter().enumerate() {
            flows.extend(port.targets.iter().map(|to| (Cell::Port(i), port.name.as_str(), *to)));
        }
        for (i, edge) in node.spawns.iter().enumerate() {
            spawns.push((Cell::Spawn(i), edge.label.as_str(), edge.target));
        }
        for (cell, _, to) in flows.iter().chain(&spawns) {
            let target = images[to.index()];
            if let Origin::Cluster(inside) = &mut self.origins[target.index()]
                && target != image
                && !inside.entries.contains(&(id, *cell))
            {
                inside.entries.push((id, *cell));
            }
        }
        match self.origins[image.index()] {
            Origin::Node(_) => self.redirect(image, images),
            Origin::Cluster(_) => self.merge(graph, id, images, &flows, &spawns),
        }
    }

    /// Leads the edges of a node that was not folded to the images of their targets.
    fn redirect(&mut self, image: NodeId, images: &[NodeId]) {
        let own = self.graph.node_mut(image);
        for port in &mut own.ports {
            port.targets.iter_mut().for_each(|to| *to = images[to.index()]);
            port.targets.dedup();
        }
        for edge in own.spawns.iter_mut().chain(&mut own.notifies) {
            edge.target = images[edge.target.index()];
        }
    }

    /// Adds the edges of a node to those of its cluster.
    fn merge(
        &mut self,
        graph: &Graph,
        id: NodeId,
        images: &[NodeId],
        flows: &[Way<'_>],
        spawns: &[Way<'_>],
    ) {
        let (node, image) = (graph.node(id), images[id.index()]);
        for (cell, name, to) in flows {
            self.merge_port(image, images[to.index()], name, (id, *cell));
        }
        for port in node.ports.iter().filter(|port| port.targets.is_empty()) {
            let cell = Cell::Port(node.port(&port.name).unwrap_or_default());
            if node.drop_reason(&port.name).is_some() {
                self.merge_drop(image, (id, cell));
            }
        }
        for (cell, label, to) in spawns {
            self.merge_spawn(image, images[to.index()], label, (id, *cell));
        }
        for edge in &node.notifies {
            let target = images[edge.target.index()];
            let own = self.graph.node_mut(image);
            if target != image && !own.notifies.iter().any(|known| known.target == target) {
                own.notifies.push(Edge { target, ..edge.clone() });
            }
        }
        let own = self.graph.node_mut(image);
        for mark in [Attr::Source, Attr::Sink] {
            if node.has(&mark) && !own.has(&mark) {
                own.attrs.push(mark);
            }
        }
    }

    fn merge_port(&mut self, image: NodeId, target: NodeId, name: &str, from: (NodeId, Cell)) {
        if target == image {
            return;
        }
        let Origin::Cluster(inside) = &mut self.origins[image.index()] else { return };
        let own = self.graph.node_mut(image);
        match own.ports.iter().position(|port| port.targets == [target]) {
            Some(i) => {
                name_too(&mut own.ports[i].name, name);
                add(&mut inside.ports[i], from);
            }
            None => {
                let targets = vec![target];
                own.ports.push(Port { name: name.into(), targets, ..Port::default() });
                inside.ports.push(vec![from]);
            }
        }
    }

    fn merge_drop(&mut self, image: NodeId, from: (NodeId, Cell)) {
        let Origin::Cluster(inside) = &mut self.origins[image.index()] else { return };
        let own = self.graph.node_mut(image);
        let is_drop = |port: &Port| port.targets.is_empty();
        match own.ports.iter().position(is_drop) {
            Some(i) => add(&mut inside.ports[i], from),
            None => {
                own.ports.push(Port { name: DROPS.into(), ..Port::default() });
                own.attrs.push(Attr::Drop { port: DROPS.into(), reason: "any inside".into() });
                inside.ports.push(vec![from]);
            }
        }
    }

    fn merge_spawn(&mut self, image: NodeId, target: NodeId, label: &str, from: (NodeId, Cell)) {
        if target == image {
            return;
        }
        let Origin::Cluster(inside) = &mut self.origins[image.index()] else { return };
        let own = self.graph.node_mut(image);
        match own.spawns.iter().position(|edge| edge.target == target) {
            Some(i) => {
                name_too(&mut own.spawns[i].label, label);
                add(&mut inside.spawns[i], from);
            }
            None => {
                own.spawns.push(Edge { label: label.into(), target, predicates: Vec::new() });
                inside.spawns.push(vec![from]);
            }
        }
    }

    /// The number of nodes in a box, if it is a folded cluster.
    pub(super) fn inside(&self, box_: NodeId) -> Option<usize> {
        match &self.origins[box_.index()] {
            Origin::Node(_) => None,
            Origin::Cluster(inside) => Some(inside.nodes.len()),
        }
    }

    /// How many packets reached a node, or came into a cluster.
    pub(super) fn node(&self, graph: &Graph, extras: &Extras<'_>, id: NodeId) -> Option<u64> {
        match &self.origins[id.index()] {
            Origin::Node(node) => extras.node(*node),
            Origin::Cluster(inside) => {
                let sources = inside.nodes.iter().filter(|id| graph.node(**id).has(&Attr::Source));
                let own = sources.map(|id| extras.node(*id));
                let entered = inside.entries.iter().map(|(id, cell)| extras.cell(*id, *cell));
                sum(own.chain(entered))
            }
        }
    }

    /// How many packets took a port or a spawn edge.
    pub(super) fn cell(&self, extras: &Extras<'_>, id: NodeId, cell: Cell) -> Option<u64> {
        let from = match (&self.origins[id.index()], cell) {
            (Origin::Node(node), _) => return extras.cell(*node, cell),
            (Origin::Cluster(inside), Cell::Port(i)) => &inside.ports[i],
            (Origin::Cluster(inside), Cell::Spawn(i)) => &inside.spawns[i],
            (Origin::Cluster(_), Cell::Notify(_)) => return None,
        };
        sum(from.iter().map(|(id, cell)| extras.cell(*id, *cell)))
    }

    /// The condition on packets that leave by a port, if it is of a node that was not folded.
    pub(super) fn condition(&self, extras: &Extras<'_>, id: PortId) -> Option<String> {
        match &self.origins[id.node.index()] {
            Origin::Node(node) => {
                extras.condition.and_then(|words| words(PortId { node: *node, port: id.port }))
            }
            Origin::Cluster(_) => None,
        }
    }
}

fn add(list: &mut Vec<(NodeId, Cell)>, one: (NodeId, Cell)) {
    if !list.contains(&one) {
        list.push(one);
    }
}

/// Names an edge after another one that it also represents.
fn name_too(names: &mut String, name: &str) {
    let known = || names.split(", ");
    if known().any(|one| one == name || one == "…") {
        return;
    }
    let more = if known().count() < NAMES { name } else { "…" };
    *names = format!("{names}, {more}");
}

/// The sum of the counts that there are.
fn sum(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.flatten().fold(None, |all, count| Some(all.unwrap_or(0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{svg, svg_folded};
    use crate::testkit::add;

    /// Queue → L2 {Type → {Four, Six}} → L3 {Sum}; Type drops, Four spawns a reply in L2.
    fn example() -> Graph {
        let mut g = Graph::new("g");
        let sum = add(&mut g, "RxL3Sum", &[("out", &[])]);
        let four = add(&mut g, "RxL2Four", &[("v4", &[sum])]);
        let six = add(&mut g, "RxL2Six", &[("v6", &[sum]), ("again", &[sum])]);
        let kind = add(&mut g, "RxL2Type", &[("ip", &[four, six]), ("bad", &[])]);
        let queue = add(&mut g, "RxQueue", &[("out", &[kind])]);
        let in_cluster = |g: &mut Graph, id, names: &[&str]| {
            g.node_mut(id).clusters = names.iter().map(|name| name.to_string()).collect();
        };
        in_cluster(&mut g, sum, &["Rx", "L3"]);
        for id in [four, six, kind] {
            in_cluster(&mut g, id, &["Rx", "L2"]);
        }
        in_cluster(&mut g, queue, &["Rx"]);
        g.node_mut(kind).attrs.push(Attr::parse("drop bad: of no kind"));
        let reply = Edge { label: "reply".into(), target: queue, predicates: Vec::new() };
        g.node_mut(four).spawns.push(reply);
        g
    }

    fn names(graph: &Graph) -> Vec<&str> {
        graph.iter().map(|(_, node)| node.name.as_str()).collect()
    }

    fn unfolding(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn innermost_clusters_become_nodes_and_their_edges_are_joined() {
        let folded = fold(&example(), &[]);
        assert_eq!(names(&folded.graph), ["RxL3", "RxL2", "RxQueue"]);
        let l2 = folded.graph.node(folded.graph.find("RxL2").unwrap());
        assert_eq!((&l2.clusters[..], l2.ports.len()), (&["Rx".to_owned()][..], 2));
        assert_eq!(l2.ports[0].name, "v4, v6, again");
        assert_eq!(l2.ports[0].targets, [folded.graph.find("RxL3").unwrap()]);
        assert_eq!(
            (l2.ports[1].name.as_str(), l2.drop_reason("drops")),
            ("drops", Some("any inside"))
        );
        assert_eq!(l2.spawns[0].label, "reply");
    }

    #[test]
    fn clusters_are_unfolded_by_either_name_and_all_at_once() {
        let graph = example();
        for name in ["RxL2", "L2"] {
            let folded = fold(&graph, &unfolding(&[name]));
            assert_eq!(folded.graph.len(), 5, "{name}: four as before, and L3");
            assert!(folded.graph.find("RxL3").is_some() && folded.graph.find("RxL2").is_none());
        }
        let all = svg_folded(&graph, &Extras::default(), &unfolding(&[EVERY])).unwrap();
        assert_eq!(all, svg(&graph));
        let unknown = svg_folded(&graph, &Extras::default(), &unfolding(&["RxL4"])).unwrap_err();
        assert_eq!(unknown.to_string(), "the graph has no innermost cluster `RxL4`");
        assert_eq!(unknown.remedy(), "did you mean `RxL3`?");
        let outer = check(&graph, &unfolding(&["Rx"])).unwrap_err();
        assert!(outer.remedy().contains("RxL"), "{}", outer.remedy());
    }

    #[test]
    fn a_folded_cluster_has_the_sums_of_what_is_inside() {
        let graph = example();
        let id = |name: &str| graph.find(name).unwrap();
        let port = |at: PortId| {
            let counts =
                [("RxQueue", 0, 10), ("RxL2Type", 1, 3), ("RxL2Four", 0, 4), ("RxL2Six", 0, 2)];
            let found =
                counts.iter().find(|(name, port, _)| (id(name), *port) == (at.node, at.port));
            found.map(|(_, _, count)| *count)
        };
        let (node, spawn) = (|_| Some(99), |node, _| (node == id("RxL2Four")).then_some(1));
        let extras = Extras {
            node: Some(&node),
            port: Some(&port),
            spawn: Some(&spawn),
            ..Extras::default()
        };
        let folded = fold(&graph, &[]);
        let l2 = folded.graph.find("RxL2").unwrap();
        assert_eq!(folded.inside(l2), Some(3));
        assert_eq!(folded.node(&graph, &extras, l2), Some(10), "incoming packets");
        assert_eq!(folded.cell(&extras, l2, Cell::Port(0)), Some(6), "v4 and v6");
        assert_eq!(folded.cell(&extras, l2, Cell::Port(1)), Some(3), "drops");
        assert_eq!(folded.cell(&extras, l2, Cell::Spawn(0)), Some(1));
        let l3 = folded.graph.find("RxL3").unwrap();
        assert_eq!(folded.node(&graph, &extras, l3), Some(6));
        let queue = folded.graph.find("RxQueue").unwrap();
        assert_eq!(folded.node(&graph, &extras, queue), Some(99), "not folded");
        let picture = svg_folded(&graph, &extras, &[]).unwrap();
        assert!(picture.contains("3 nodes · 10 packets"), "{picture}");
    }
}
