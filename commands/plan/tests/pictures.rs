//! The pictures of `docs/plan.md`: graphs before and after what a device vouches for is left out.

use std::path::Path;

use weever_graph::{Graph, Predicate, verify};
use weever_plan::flow::Conj;
use weever_plan::simplify::{QueueFacts, simplify};

/// Datagrams on their way to a socket, and back from it.
const RECEIVE: &str = r#"
graph receive {
    node In { attr "source" port out[ValidLength ValidChecksum] }
    boolean ValidLength {
        effects reads
        attr "drop false: UDP length is impossible"
        port true false[Valid]
        predicate true "udp.len >= 8 and udp.len <= l4.len"
    }
    boolean ValidChecksum {
        effects reads marks
        attr "drop false: UDP checksum is wrong"
        attr "offload"
        port true false[Valid]
        predicate true "pred(udp.checksum,right)"
    }
    and Valid { port true[Socket] port false[] }
    node Socket { effects reads consumes }
}
"#;
/// The first nodes of the host's receive graph. A NIC that drops what is shorter than Ethernet allows leaves them nothing
/// to do.
const TAG: &str = r#"
graph tag {
    node Queue { attr "source" port out[Classified] }
    boolean Classified {
        effects reads
        attr "drop false: frame shorter than an Ethernet header"
        port true[ValidLength]
        port false[]
        predicate true "frame.len >= 14"
    }
    boolean ValidLength {
        effects reads
        attr "drop false: frame ends inside its 802.1Q tag"
        port true[ValidVlan]
        port false[]
        predicate true "frame.len >= 18 or not (eth.outer = 0x8100 or eth.outer = 0x88a8)"
    }
    node ValidVlan { effects reads consumes }
}
"#;
const SEND: &str = r#"
graph send {
    node Socket { attr "source" port out[Ports] }
    node Ports { effects writes port out[Checksum] }
    node Checksum { effects reads writes attr "offload" port out[Queue] predicate out "pred(udp.checksum,right)" }
    node Queue { effects reads consumes attr "sink" }
}
"#;

fn load(text: &str) -> weever_graph::Verified {
    let loaded = weever_unicorn::load(text, "picture").unwrap_or_else(|e| panic!("{e}"));
    verify(loaded.graph).unwrap_or_else(|e| panic!("{}", e[0].message))
}

#[test]
fn the_documented_pictures_are_those_of_the_graphs() {
    let right = Predicate::Atom { label: "udp.checksum".into(), value: "right".into() };
    let long = weever_unicorn::predicate::parse("not (frame.len < 56)").unwrap();
    let always = Predicate::True;
    for (name, text, vouched, filled, gone) in [
        ("receive", RECEIVE, &right, &always, "Checksum"),
        ("tag", TAG, &long, &always, "ValidLength"),
        ("send", SEND, &always, &right, "Checksum"),
    ] {
        let before = load(text);
        let arriving = [Conj::all()];
        let after = simplify(&before, &QueueFacts { filled, ..QueueFacts::of(&arriving, vouched) });
        let folded = &after.report.folded;
        assert!(folded.iter().any(|node| node.ends_with(gone)), "{folded:?}");
        hold(&format!("vouch-{name}-before.svg"), &before);
        hold(&format!("vouch-{name}-after.svg"), &after.graph);
    }
}

fn hold(name: &str, graph: &Graph) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let made = weever_graph::svg::svg(graph);
    if std::env::var_os("WEEVER_BLESS").is_some() {
        return std::fs::write(&path, made).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        present == made,
        "{name}: WEEVER_BLESS=1 cargo test -p weever-commands-plan --test pictures"
    );
}
