//! How much of a graph's choices its text defines.

use crate::{Graph, NodeKind, Predicate};

/// The predicates of a graph, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Function nodes with several ports.
    pub choosing: usize,
    /// Those of them that state a predicate at each port.
    pub stating: usize,
    /// Ports with a predicate.
    pub ports: usize,
    /// Ports whose predicate is all there is to say: it has no label.
    pub defined: usize,
    /// Uses of opaque labels: a node and a test of a label, once for all ports that repeat it.
    pub opaque: Vec<(String, String)>,
}

/// Counts the predicates of a graph, spawn edges among them.
pub fn stats(graph: &Graph) -> Stats {
    let mut stats = Stats::default();
    for (_, node) in graph.iter() {
        let stated = |predicate: &Predicate| *predicate != Predicate::True;
        if node.kind == NodeKind::Function && node.ports.len() > 1 {
            stats.choosing += 1;
            stats.stating += usize::from(node.ports.iter().all(|port| stated(&port.predicate)));
        }
        let ports = node.ports.iter().map(|port| &port.predicate).filter(|p| stated(p));
        for predicate in ports.clone() {
            stats.ports += 1;
            stats.defined += usize::from(predicate.is_defined());
        }
        for predicate in ports.chain(node.spawns.iter().flat_map(|edge| &edge.predicates)) {
            predicate.for_each_test(&mut |test| {
                if let Predicate::Atom { label, value } = test {
                    stats.add(&node.name, format!("pred({label},{value})"));
                }
            });
        }
    }
    stats
}

impl Stats {
    fn add(&mut self, node: &str, test: String) {
        let used = (node.to_owned(), test);
        if !self.opaque.contains(&used) {
            self.opaque.push(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::add;
    use crate::{Field, Port};

    #[test]
    fn a_label_counts_once_at_a_node() {
        let mut graph = Graph::new("g");
        let id = add(&mut graph, "Choice", &[("false", &[]), ("true", &[])]);
        let known = Predicate::Atom { label: "sum".into(), value: "right".into() };
        let both = Predicate::And(vec![Predicate::eq(Field::L4Dst, 7), known.clone()]);
        graph.node_mut(id).ports[0].predicate = Predicate::Not(Box::new(both));
        graph.node_mut(id).ports[1].predicate = known;
        let plain = Port { predicate: Predicate::eq(Field::L4Dst, 9), ..Port::default() };
        graph.node_mut(id).ports.push(plain);
        add(&mut graph, "Silent", &[("a", &[]), ("b", &[])]);
        let opaque = vec![("Choice".into(), "pred(sum,right)".into())];
        let wanted = Stats { choosing: 2, stating: 1, ports: 3, defined: 1, opaque };
        assert_eq!(stats(&graph), wanted);
    }
}
