//! Block types, and finding them by name.

use std::collections::BTreeMap;

use weever_graph::{Attr, ENDS, Effects, Graph, Node, NodeId, NodeKind, Port, Predicate};
use weever_suggest::nearest;

use crate::{Block, BlockType, Build, BuildError, Env, RunCompiler, StateKind};

/// The parameter that every node may have: `worker=N` has worker number N alone run it.
pub const WORKER: &str = "worker";

/// The parameter `parts=no` keeps a node out of parts of the graph: workers that run a part start the node's tasks in the
/// whole graph, at worker 0.
pub const PARTS: &str = "parts";

/// The type under which a table node without a type of its own runs.
pub const TABLE: &str = "Table";

/// The type under which a node without a type of its own runs if the predicates of its ports say all.
pub const BY_PREDICATE: &str = "ByPredicate";

/// The block types that a stack knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    types: BTreeMap<&'static str, &'static BlockType>,
    compiler: Option<&'static dyn RunCompiler>,
}

impl Registry {
    /// A registry of nothing.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds types, from any crate. One of the same name replaces the earlier.
    #[must_use]
    pub fn with(mut self, types: &[&'static BlockType]) -> Registry {
        self.types.extend(types.iter().map(|added| (added.name, *added)));
        self
    }

    /// Has runs of nodes compiled.
    #[must_use]
    pub fn with_compiler(mut self, compiler: &'static dyn RunCompiler) -> Registry {
        self.compiler = Some(compiler);
        self
    }

    /// The compiler of runs, if there is one.
    pub fn compiler(&self) -> Option<&'static dyn RunCompiler> {
        self.compiler
    }

    /// The same types, and every packet through every node.
    #[must_use]
    pub fn without_runs(&self) -> Registry {
        Registry { types: self.types.clone(), compiler: None }
    }

    /// Every type, by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static BlockType> + '_ {
        self.types.values().copied()
    }

    /// The type that implements `node`. A table without a type of its own runs as [`TABLE`], a node
    /// whose ports state when packets leave by them as [`BY_PREDICATE`].
    pub fn type_of(&self, node: &Node) -> Result<&'static BlockType, BuildError> {
        let name = node.implementation_name();
        self.find(node).ok_or_else(|| BuildError::UnknownType {
            node: node.name.clone(),
            implementation: name.into(),
            hint: self.hint(name),
        })
    }

    /// The same, if there is one. Operators have none.
    pub fn find(&self, node: &Node) -> Option<&'static BlockType> {
        let found = self.types.get(node.implementation_name()).copied();
        let is_table = matches!(node.kind, NodeKind::Table(_));
        let found = found.or_else(|| self.types.get(TABLE).copied().filter(|_| is_table));
        let says_all = || self.types.get(BY_PREDICATE).copied().filter(|_| is_defined(node));
        found.or_else(says_all)
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

    /// The worker at which a worker with a part of the graph starts the tasks of `node`: that of the parameter
    /// `worker=N`; worker 0 for state at one worker, and with `parts=no`. `None`: the part has the node.
    pub fn home_for_parts(&self, node: &Node) -> Option<u16> {
        let tagged = node.param(WORKER).and_then(|tag| tag.parse().ok());
        let single = self.type_of(node).is_ok_and(|t| t.state == StateKind::SingleHomed);
        tagged.or((single || node.param(PARTS) == Some("no")).then_some(0))
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

/// Whether the text of a node is all there is to say of it: it chooses between ports by predicates without
/// labels, and neither names a block nor starts or wakes anything.
fn is_defined(node: &Node) -> bool {
    let states = |port: &Port| port.predicate != Predicate::True && port.predicate.is_defined();
    node.kind == NodeKind::Function
        && node.implementation.is_none()
        && node.ports.len() > 1
        && node.ports.iter().all(states)
        && node.spawns.is_empty()
        && node.notifies.is_empty()
}

fn check_shape(node: &Node, block_type: &BlockType) -> Result<(), BuildError> {
    // A table's ports are the graph's own business: its entries name them by number.
    if ![TABLE, BY_PREDICATE].contains(&block_type.name) {
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
        if let Attr::Param { key, value } = attr
            && key == PARTS
            && value != "no"
        {
            let (node, problem) = (node.name.clone(), "use no".into());
            return Err(BuildError::Param {
                node,
                key: key.clone(),
                value: value.clone(),
                problem,
            });
        }
        if let Attr::Param { key, .. } = attr
            && ![WORKER, PARTS, ENDS].contains(&key.as_str())
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
mod tests {
    use weever_graph::Effects;

    use super::*;
    use crate::{ParamDoc, PortDoc};
    use weever_graph::Port;
    use weever_packet::{Burst, Mask};

    use crate::{Cx, Ports};

    struct Nothing;

    impl Block for Nothing {
        fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
            ports.enable(0, input);
        }
    }

    static PACER: BlockType = BlockType {
        name: "Pacer",
        summary: "Lets packets through at a pace",
        ports: &[PortDoc { name: "out", doc: "every packet" }],
        spawns: &["again"],
        notifies: &[],
        effects: Effects::STATEFUL,
        state: crate::StateKind::Replicated,
        params: &[ParamDoc { name: "rate", default: "10", doc: "packets per second" }],
        counters: &[],
        make: |build| {
            let rate: u32 = build.param("rate")?;
            if rate == 0 {
                return Err(build.bad_param("rate", "0", "use 1 or more"));
            }
            Ok(Box::new(Nothing))
        },
    };

    fn node(ports: &[&str], spawns: &[&str], attrs: &[&str]) -> Node {
        let mut node = Node::new("TxPace", NodeKind::Function);
        node.implementation = Some("Pacer".into());
        node.ports = ports.iter().map(|p| Port { name: (*p).into(), ..Port::default() }).collect();
        let edge = |l: &&str| weever_graph::Edge {
            label: (*l).into(),
            target: NodeId(0),
            predicates: Vec::new(),
        };
        node.spawns = spawns.iter().map(edge).collect();
        node.attrs = attrs.iter().map(|a| Attr::parse(a)).collect();
        node
    }

    fn build(node: &Node) -> Result<(), String> {
        let registry = Registry::new().with(&[&PACER]);
        registry.build(node, &Env::new()).map(drop).map_err(|e| e.to_string())
    }

    #[test]
    fn a_node_of_the_right_shape_is_built() {
        assert_eq!(build(&node(&["out"], &["again"], &["rate=7"])), Ok(()));
        assert_eq!(build(&node(&["out"], &["again"], &[])), Ok(()), "the default applies");
    }

    #[test]
    fn parts_do_not_have_a_node_that_says_so() {
        let registry = Registry::new().with(&[&PACER]);
        let home = |attrs: &[&str]| registry.home_for_parts(&node(&["out"], &["again"], attrs));
        assert_eq!((home(&[]), home(&["parts=no"])), (None, Some(0)));
        assert_eq!(home(&["parts=no", "worker=3"]), Some(3), "it runs there in any case");
        assert_eq!(build(&node(&["out"], &["again"], &["parts=no"])), Ok(()));
        let other = build(&node(&["out"], &["again"], &["parts=yes"])).unwrap_err();
        assert_eq!(other, "node TxPace: parameter parts=yes: use no");
    }

    #[test]
    fn errors_name_the_node_and_what_is_wrong() {
        let missing = build(&node(&[], &["again"], &[])).unwrap_err();
        assert_eq!(missing, "node TxPace: block type `Pacer` has port `out`, the node has not");
        let surplus = build(&node(&["out", "late"], &["again"], &[])).unwrap_err();
        assert!(surplus.contains("port `late`") && surplus.contains("(out)"), "{surplus}");
        let edge = build(&node(&["out"], &[], &[])).unwrap_err();
        assert!(edge.contains("spawn edge `again`"), "{edge}");
        let param = build(&node(&["out"], &["again"], &["pace=1"])).unwrap_err();
        assert!(param.contains("parameter `pace`") && param.contains("(rate)"), "{param}");
        let word = build(&node(&["out"], &["again"], &["rate=fast"])).unwrap_err();
        assert!(word.contains("rate=fast: invalid digit"), "{word}");
        let zero = build(&node(&["out"], &["again"], &["rate=0"])).unwrap_err();
        assert!(zero.contains("use 1 or more"), "{zero}");
    }

    #[test]
    fn an_unknown_type_is_named_with_a_suggestion() {
        let mut wrong = node(&["out"], &["again"], &[]);
        wrong.implementation = Some("TxPacer".into());
        let error = build(&wrong).unwrap_err();
        assert!(error.contains("`TxPacer`") && error.contains("did you mean"), "{error}");
    }

    #[test]
    fn annotation_keeps_what_the_text_states() {
        let registry = Registry::new().with(&[&PACER]);
        let mut graph = Graph::new("g");
        let plain = graph.add(node(&["out"], &["again"], &[]));
        let mut stated = node(&["out"], &["again"], &[]);
        stated.effects = Some(Effects::READS);
        let stated = graph.add(stated);
        registry.annotate(&mut graph).unwrap();
        assert_eq!(graph.node(plain).effects, Some(Effects::STATEFUL));
        assert_eq!(graph.node(stated).effects, Some(Effects::READS));
    }

    #[test]
    fn the_environment_is_shared_by_type() {
        let env = Env::new();
        assert!(env.get::<u32>().is_none());
        let first = env.get_or_default::<std::sync::Mutex<Vec<u8>>>();
        first.lock().unwrap().push(1);
        assert_eq!(env.get_or_default::<std::sync::Mutex<Vec<u8>>>().lock().unwrap().len(), 1);
        env.provide(std::sync::Arc::new(7u32));
        assert_eq!(env.get::<u32>().as_deref(), Some(&7));
    }

    #[test]
    fn a_type_of_the_same_name_replaces_the_earlier() {
        static MINE: BlockType = BlockType { summary: "Lets everything through", ..PACER };
        let replaced = Registry::new().with(&[&PACER]).with(&[&MINE]);
        let summaries: Vec<_> = replaced.iter().map(|block| block.summary).collect();
        assert_eq!(summaries, ["Lets everything through"]);
    }
}
