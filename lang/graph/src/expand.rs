//! The reference meaning of a T-node: one F-node per entry, as the papers draw it.

use crate::{Entry, Graph, Node, NodeId, NodeKind, Op, Port, Predicate, TableSpec};

/// The graph with the T-node at `id` expanded into a chain of filters, each with `false` and
/// `true`, in the order in which entries win. Entries' ids are part of the filters' names. Other
/// nodes keep their ids; `id` becomes the first filter. A graph without a T-node there comes back
/// as it is.
///
/// Ports of the table become nodes of one port each. A table with only `false` (for a miss) and
/// `true` becomes an OR over its filters instead, so that it may be an operand.
pub fn expand(graph: &Graph, id: NodeId) -> Graph {
    let mut out = graph.clone();
    let NodeKind::Table(table) = graph.node(id).kind.clone() else { return out };
    let node = graph.node(id).clone();
    let mut entries: Vec<&Entry> = table.entries.iter().collect();
    entries.sort_by_key(|e| std::cmp::Reverse(e.priority));
    if entries.is_empty() {
        return always_miss(out, id, &table);
    }
    let exits = exits(&mut out, &node, &table);
    let filter = |i: usize| filter(&node, &table, i, entries[i]);
    let ids: Vec<NodeId> =
        (0..entries.len()).map(|i| if i == 0 { id } else { out.add(filter(i)) }).collect();
    *out.node_mut(id) = filter(0);
    for (i, entry) in entries.iter().enumerate() {
        let ports = &mut out.node_mut(ids[i]).ports;
        ports[1].targets.push(exits[entry.port as usize]);
        match ids.get(i + 1) {
            Some(next) => ports[0].targets.push(*next),
            None => ports[0].targets.push(exits[table.miss as usize]),
        }
        // An OR sees both outcomes of each operand.
        if exits[0] == exits[exits.len() - 1] && exits.len() > 1 && ids.get(i + 1).is_some() {
            ports[0].targets.push(exits[0]);
        }
    }
    out
}

/// Where packets go that leave by each port of the table.
fn exits(out: &mut Graph, node: &Node, table: &TableSpec) -> Vec<NodeId> {
    let names = node.ports.iter().map(|p| p.name.as_str());
    let boolean =
        names.eq(["false", "true"]) && table.miss == 0 && table.entries.iter().all(|e| e.port == 1);
    if boolean {
        let mut or = part(node, "hit", NodeKind::Operator(Op::Or));
        or.ports.clone_from(&node.ports);
        let or = out.add(or);
        return vec![or, or];
    }
    let exit = |port: &Port| {
        let mut exit = part(node, &port.name, NodeKind::Function);
        exit.ports.push(port.clone());
        exit
    };
    node.ports.iter().map(|p| out.add(exit(p))).collect()
}

fn part(node: &Node, name: &str, kind: NodeKind) -> Node {
    let mut part = Node::new(format!("{}_{name}", node.name), kind);
    part.clusters.clone_from(&node.clusters);
    part.span = node.span;
    part
}

fn filter(node: &Node, table: &TableSpec, at: usize, entry: &Entry) -> Node {
    // Ids may repeat; names must not.
    let mut filter = part(node, &format!("{at}_id{}", entry.id), NodeKind::Function);
    filter.effects = node.effects;
    let test = |(field, key): (&crate::Field, &crate::Key)| Predicate::Match {
        field: *field,
        mask: key.mask,
        value: key.value,
    };
    let wanted = table.fields.iter().zip(&entry.keys).filter(|(_, k)| k.mask != 0);
    let hit = Predicate::And(wanted.map(test).collect());
    let miss = Predicate::Not(Box::new(hit.clone()));
    for (name, predicate) in [("false", miss), ("true", hit)] {
        filter.ports.push(Port { name: name.into(), predicate, ..Port::default() });
    }
    filter
}

/// A table without entries: every packet misses.
fn always_miss(mut graph: Graph, id: NodeId, table: &TableSpec) -> Graph {
    let node = graph.node_mut(id);
    node.kind = NodeKind::Function;
    let miss = table.miss as usize;
    for (i, port) in node.ports.iter_mut().enumerate() {
        port.predicate = if i == miss { Predicate::True } else { Predicate::False };
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{add, add_kind, add_op};
    use crate::{Field, Key, verify};

    fn entry(id: u32, value: u128, priority: u32, port: u32) -> Entry {
        Entry { id, keys: vec![Key { mask: 0xffff, value }], priority, port }
    }

    fn kind(entries: Vec<Entry>) -> NodeKind {
        NodeKind::Table(TableSpec { fields: vec![Field::L4Dst], entries, miss: 0, capacity: 9 })
    }

    /// Where a packet to `port` gets to, by the ports' predicates.
    fn walk(graph: &Graph, from: NodeId, port: u128) -> String {
        let (mut at, field) = (from, |f: Field| (f == Field::L4Dst).then_some(port));
        loop {
            let node = graph.node(at);
            let next = node.ports.iter().find(|p| p.predicate.eval(&field, &|_| false));
            match next.and_then(|p| p.targets.first()) {
                Some(target) => at = *target,
                None => return node.name.clone(),
            }
        }
    }

    #[test]
    fn the_winning_entry_decides() {
        let mut g = Graph::new("g");
        let ends: Vec<NodeId> = ["none", "a", "b"].iter().map(|n| add(&mut g, n, &[])).collect();
        let ports: Vec<(&str, &[NodeId])> =
            ["miss", "pa", "pb"].into_iter().zip(ends.chunks(1)).collect();
        let entries = vec![entry(1, 53, 1, 1), entry(2, 80, 1, 1), entry(3, 53, 2, 2)];
        let t = add_kind(&mut g, "T", kind(entries), &ports);
        let expanded = expand(&g, t);
        assert_eq!(walk(&expanded, t, 53), "b");
        assert_eq!(walk(&expanded, t, 80), "a");
        assert_eq!(walk(&expanded, t, 22), "none");
        assert!(verify(expanded).is_ok());
    }

    #[test]
    fn a_boolean_table_stays_an_operand() {
        let mut g = Graph::new("g");
        let and = add_op(&mut g, "and", Op::And, &[("false", &[]), ("true", &[])]);
        let entries = vec![entry(1, 53, 1, 1), entry(2, 80, 1, 1)];
        let t = add_kind(&mut g, "T", kind(entries), &[("false", &[and]), ("true", &[and])]);
        let expanded = verify(expand(&g, t)).unwrap();
        let or = expanded.node(expanded.find("T_hit").unwrap());
        assert_eq!(or.kind, NodeKind::Operator(Op::Or));
        assert_eq!(or.ports[1].targets, [and]);
        assert_eq!(expanded.notes().count(), 0);
    }

    #[test]
    fn an_empty_table_always_misses() {
        let mut g = Graph::new("g");
        let end = add(&mut g, "end", &[]);
        let t = add_kind(&mut g, "T", kind(Vec::new()), &[("miss", &[end]), ("hit", &[])]);
        assert_eq!(walk(&expand(&g, t), t, 53), "end");
    }
}
