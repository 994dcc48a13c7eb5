//! Block types, and finding them by name.

use std::collections::BTreeMap;

use weever_graph::{Attr, ENDS, Effects, Graph, Node, NodeId, NodeKind};
use weever_suggest::nearest;

use crate::{Block, BlockType, Build, BuildError, Env, Shortcut, ShortcutType, StateKind, Way};

/// The parameter that every node may have: `worker=N` has worker number N alone run it.
pub const WORKER: &str = "worker";

/// The type under which a table node without a type of its own runs.
pub const TABLE: &str = "Table";

/// The block types that a stack knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    types: BTreeMap<&'static str, &'static BlockType>,
    shortcuts: Vec<&'static ShortcutType>,
}

impl Registry {
    /// A registry of nothing.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds types, from any crate. One of the same name replaces the earlier, and shortcuts that
    /// pass nodes of that type are gone with it.
    #[must_use]
    pub fn with(mut self, types: &[&'static BlockType]) -> Registry {
        for added in types {
            if self.types.insert(added.name, added).is_some() {
                let passes = |way: &Way| way.iter().any(|(name, _)| *name == added.name);
                self.shortcuts.retain(|shortcut| !shortcut.ways.iter().any(passes));
            }
        }
        self
    }

    /// Adds shortcuts. Where several begin at a node, the one that was added first is used.
    #[must_use]
    pub fn with_shortcuts(mut self, shortcuts: &[&'static ShortcutType]) -> Registry {
        self.shortcuts.extend(shortcuts);
        self
    }

    /// The same types, and every packet through every node.
    #[must_use]
    pub fn without_shortcuts(&self) -> Registry {
        Registry { types: self.types.clone(), shortcuts: Vec::new() }
    }

    /// Every shortcut, in the order of being added.
    pub fn shortcuts(&self) -> &[&'static ShortcutType] {
        &self.shortcuts
    }

    /// Makes the shortcut that begins at `node`.
    pub fn build_shortcut(
        &self,
        shortcut: &ShortcutType,
        node: &Node,
        env: &Env,
    ) -> Result<Box<dyn Shortcut>, BuildError> {
        (shortcut.make)(&Build { node, block_type: self.check(node)?, env })
    }

    /// Every type, by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static BlockType> + '_ {
        self.types.values().copied()
    }

    /// The type that implements `node`. A table without a type of its own runs as [`TABLE`].
    pub fn type_of(&self, node: &Node) -> Result<&'static BlockType, BuildError> {
        let name = node.implementation_name();
        let found = self.types.get(name).copied();
        let is_table = matches!(node.kind, NodeKind::Table(_));
        let found = found.or_else(|| self.types.get(TABLE).copied().filter(|_| is_table));
        found.ok_or_else(|| BuildError::UnknownType {
            node: node.name.clone(),
            implementation: name.into(),
            hint: self.hint(name),
        })
    }

    fn hint(&self, name: &str) -> String {
        match nearest(name, self.types.keys().copied()) {
            Some(near) => format!("; did you mean `implementation {near}`?"),
            None => String::new(),
        }
    }

    /// Fills in the effects of every F- and T-node from its type, for the verifier. Nodes that
    /// state their effects keep them.
    pub fn annotate(&self, graph: &mut Graph) -> Result<(), BuildError> {
        for id in (0..graph.len() as u32).map(NodeId) {
            let node = graph.node(id);
            if !matches!(node.kind, NodeKind::Function | NodeKind::Table(_)) {
                continue;
            }
            match (node.effects, self.type_of(node)) {
                // Its task may go on at another worker, where nothing else of it is known.
                (effects, Ok(found)) if found.state == StateKind::Sharded => {
                    let effects = effects.unwrap_or(found.effects).union(Effects::BLOCKS);
                    graph.node_mut(id).effects = Some(effects);
                }
                (None, found) => graph.node_mut(id).effects = Some(found?.effects),
                (Some(_), _) => {}
            }
        }
        Ok(())
    }

    /// The type that implements `node`, after checking the node's ports, edges and parameters by it.
    pub fn check(&self, node: &Node) -> Result<&'static BlockType, BuildError> {
        let block_type = self.type_of(node)?;
        check_shape(node, block_type)?;
        Ok(block_type)
    }

    /// Makes the block for `node`, after checking its ports, edges and parameters by the type.
    pub fn build(&self, node: &Node, env: &Env) -> Result<Box<dyn Block>, BuildError> {
        let block_type = self.check(node)?;
        (block_type.make)(&Build { node, block_type, env })
    }
}

fn check_shape(node: &Node, block_type: &BlockType) -> Result<(), BuildError> {
    // A table's ports are the graph's own business: its entries name them by number.
    if block_type.name != TABLE {
        let has: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
        let wants: Vec<&str> = block_type.ports.iter().map(|p| p.name).collect();
        check_names(node, block_type, "port", &wants, &has)?;
    }
    let has: Vec<&str> = node.spawns.iter().map(|e| e.label.as_str()).collect();
    check_names(node, block_type, "spawn edge", block_type.spawns, &has)?;
    let has: Vec<&str> = node.notifies.iter().map(|e| e.label.as_str()).collect();
    check_names(node, block_type, "notify edge", block_type.notifies, &has)?;
    let known: Vec<&str> = block_type.params.iter().map(|p| p.name).collect();
    for attr in &node.attrs {
        if let Attr::Param { key, .. } = attr
            && ![WORKER, ENDS].contains(&key.as_str())
            && !known.contains(&key.as_str())
        {
            return Err(unknown(node, block_type, "parameter", key, &known));
        }
    }
    Ok(())
}

fn check_names(
    node: &Node,
    block_type: &BlockType,
    what: &'static str,
    wants: &[&str],
    has: &[&str],
) -> Result<(), BuildError> {
    if let Some(name) = wants.iter().find(|w| !has.contains(w)) {
        return Err(BuildError::Missing {
            node: node.name.clone(),
            implementation: block_type.name.into(),
            what,
            name: (*name).into(),
        });
    }
    match has.iter().find(|h| !wants.contains(h)) {
        Some(name) => Err(unknown(node, block_type, what, name, wants)),
        None => Ok(()),
    }
}

fn unknown(
    node: &Node,
    block_type: &BlockType,
    what: &'static str,
    name: &str,
    known: &[&str],
) -> BuildError {
    BuildError::Unknown {
        node: node.name.clone(),
        implementation: block_type.name.into(),
        what,
        name: name.into(),
        known: if known.is_empty() { "it has none".into() } else { known.join(", ") },
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
