//! Every shipped model is sound.

use weever_graph::verify;
use weever_models::{ALL, HOST, HostConfig, NICS, Service, counters, host};

#[test]
fn texts_load_without_warnings_and_are_formatted() {
    for model in ALL.iter().chain(NICS.iter().map(|(_, model)| model)) {
        let loaded = weever_unicorn::load(model.source, model.file);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        let warnings: Vec<_> = loaded
            .diagnostics
            .iter()
            .filter(|d| d.severity >= weever_graph::Severity::Warning)
            .collect();
        assert!(warnings.is_empty(), "{}: {warnings:#?}", model.file);
        let (ast, _) = weever_unicorn::parse(model.source);
        let formatted = weever_unicorn::print(&ast) == model.source;
        assert!(formatted, "run `weever graph fmt models/{}`", model.file);
    }
}

#[test]
fn the_host_verifies_without_warnings() {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    for mut graph in [
        host(&HostConfig::default()).unwrap(),
        host(&HostConfig::default().with_applications(true)).unwrap(),
        host(&config).unwrap(),
        counters::host_with_counters(&config, 10).unwrap(),
        counters::chain(50),
    ] {
        weever_blocks_std::registry().annotate(&mut graph).unwrap();
        let verified = verify(graph).unwrap_or_else(|errors| panic!("{errors:#?}"));
        assert_eq!(verified.warnings().collect::<Vec<_>>(), Vec::<&weever_graph::Finding>::new());
    }
}

/// Nothing that is dropped is dropped without a word: each port that leads nowhere and is no sink
/// states a reason.
#[test]
fn every_discard_has_a_reason() {
    let graph = host(&HostConfig::default()).unwrap();
    let sinks = ["out", "true", "false"];
    for (_, node) in graph.iter() {
        let function = matches!(
            node.kind,
            weever_graph::NodeKind::Function | weever_graph::NodeKind::Table(_)
        );
        for port in node.ports.iter().filter(|p| function && p.targets.is_empty()) {
            let explained = node.drop_reason(&port.name).is_some();
            let multicast = node.name == "RxL2EtherValidMulticast" && port.name == "false";
            let sink = sinks[..1].contains(&port.name.as_str());
            assert!(explained || multicast || sink, "{}.{}", node.name, port.name);
        }
    }
    assert!(HOST.source.contains("attr \"drop "));
}

/// The manual lists every reason, and no other.
#[test]
fn the_manual_lists_every_reason() {
    let manual = include_str!("../../docs/protocols.md");
    let mut wanted = Vec::new();
    for (_, node) in host(&HostConfig::default().with_applications(true)).unwrap().iter() {
        for attr in &node.attrs {
            if let weever_graph::Attr::Drop { port, reason } = attr {
                wanted.push(format!("| `{}` | `{port}` | {reason} |", node.name));
            }
        }
    }
    let listed = manual.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(listed.collect::<Vec<_>>(), wanted);
}
