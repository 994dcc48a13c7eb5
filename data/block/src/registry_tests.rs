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

static PASSES_PACERS: ShortcutType = ShortcutType {
    name: "PassesPacers",
    summary: "Everything.",
    ways: &[&[("Source", "out"), ("Pacer", "out")]],
    make: |build| Err(build.bad_param("rate", "0", "never made here")),
};

#[test]
fn no_shortcut_passes_a_type_that_was_replaced() {
    let shipped = Registry::new().with(&[&PACER]).with_shortcuts(&[&PASSES_PACERS]);
    static OTHER: BlockType = BlockType { name: "Other", ..PACER };
    assert_eq!(shipped.clone().with(&[&OTHER]).shortcuts().len(), 1);
    static MINE: BlockType = BlockType { summary: "Lets everything through", ..PACER };
    let replaced = shipped.with(&[&MINE]);
    assert_eq!(replaced.shortcuts().len(), 0);
    let summaries: Vec<_> = replaced.iter().map(|block| block.summary).collect();
    assert_eq!(summaries, ["Lets everything through"]);
}
