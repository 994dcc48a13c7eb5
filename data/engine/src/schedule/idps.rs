//! Dispatch points: numbers for the places of a graph that changes.

use std::collections::{HashMap, VecDeque};

use weever_graph::Graph;

/// A dispatch point: names a block for as long as the stack lives, also when it is replaced (DESIGN
/// §1). What travels between workers carries it, so that it never means another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idp(pub u32);

impl Idp {
    /// No block has it.
    pub const NONE: Idp = Idp(u32::MAX);
}

/// How many names that are not in use keep their number, in case they come back.
const REMEMBERED: usize = 4096;

/// Gives numbers to names. A number is never given twice.
#[derive(Clone, Debug, Default)]
pub struct Idps {
    of: HashMap<String, Idp>,
    next: u32,
    /// Names that went, the latest last.
    gone: VecDeque<String>,
}

impl Idps {
    /// No name has a number yet.
    pub fn new() -> Idps {
        Idps::default()
    }

    /// The number of `name`, from now on.
    pub fn of(&mut self, name: &str) -> Idp {
        if let Some(idp) = self.of.get(name) {
            return *idp;
        }
        // Four thousand million names take years to use up, and then the last is shared.
        let idp = Idp(self.next.min(u32::MAX - 1));
        self.next = self.next.saturating_add(1);
        self.of.insert(name.into(), idp);
        idp
    }

    /// The number of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<Idp> {
        self.of.get(name).copied()
    }

    /// Forgets the names that have been out of use longest, when there are many.
    pub(crate) fn retire(&mut self, old: &Graph, new: &Graph) {
        let gone = old.iter().filter(|(_, node)| new.find(&node.name).is_none());
        self.gone.extend(gone.map(|(_, node)| node.name.clone()));
        while self.gone.len() > REMEMBERED {
            let Some(name) = self.gone.pop_front() else { return };
            if new.find(&name).is_none() && !self.gone.contains(&name) {
                self.of.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weever_graph::{Node, NodeKind};

    fn graph(name: &str) -> Graph {
        let mut graph = Graph::new("g");
        graph.add(Node::new(name, NodeKind::Function));
        graph
    }

    #[test]
    fn a_name_that_comes_back_has_its_number_and_old_ones_are_forgotten() {
        let mut idps = Idps::new();
        let kept = idps.of("kept");
        for round in 0..2 * REMEMBERED {
            let (old, new) = (graph(&format!("n{round}")), graph("kept"));
            idps.of(&format!("n{round}"));
            idps.retire(&old, &new);
        }
        assert_eq!(idps.of("kept"), kept);
        assert_eq!(idps.get("n0"), None);
        let recent = format!("n{}", 2 * REMEMBERED - 1);
        assert_eq!(idps.get(&recent), Some(idps.clone().of(&recent)));
        assert_eq!(idps.of.len(), REMEMBERED + 1);
        assert!(idps.of("n0") > idps.of(&recent), "never the same number again");
    }
}
