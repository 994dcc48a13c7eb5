//! The table of what "exclusive" guarantees on which NIC, in `docs/plan.md`, is the one that the models make.

use std::fmt::Write;
use std::path::Path;

use weever_graph::Attr;
use weever_graph::nic::{FlowType, Form};
use weever_models::{NICS, nic};
use weever_plan::nic::Nic;

const START: &str =
    "<!-- made from the models: WEEVER_BLESS=1 cargo test -p weever-models --test guarantees -->\n";
const KERNELS: &str = "<!-- kernels of the models: WEEVER_BLESS=1 cargo test -p weever-models --test guarantees -->\n";
const END: &str = "<!-- end -->\n";

/// The NIC as plans see it, unless it has no rules then.
fn seen(name: &str) -> Option<Nic> {
    let graph = nic(name).unwrap();
    let linux = Nic::linux_of(&graph).unwrap();
    let seen = if name == "xdp" { Nic::of(&graph).unwrap() } else { linux };
    (!seen.tables.is_empty()).then_some(seen)
}

fn names(types: &[FlowType]) -> String {
    types.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(" ")
}

/// What rules do with packets of a form, by the types for which the model says it.
fn cell(nic: &Nic, form: Form) -> String {
    let (mut with, mut without, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for table in &nic.tables {
        for t in table.model.flow_types.iter().filter(|t| form.concerns(**t)) {
            let forms = &table.model.forms;
            let list = match (forms.with(*t).contains(form), forms.without(*t).contains(form)) {
                (true, _) => &mut with,
                (_, true) => &mut without,
                _ => &mut open,
            };
            if !list.contains(t) {
                list.push(*t);
            }
        }
    }
    match (with.is_empty(), without.is_empty(), open.is_empty()) {
        (true, true, true) => "no such rules".into(),
        (_, _, false) => "not known".into(),
        (false, true, true) => "as whole packets".into(),
        (true, false, true) => "never matched".into(),
        (false, false, true) => format!("matched by {} only", names(&with)),
    }
}

fn table() -> String {
    let mut text = String::from("| model | ");
    let heads = [
        (Form::Options, "IPv4 options"),
        (Form::First, "first fragments"),
        (Form::Later, "later fragments"),
        (Form::Extensions, "IPv6 extension headers"),
        (Form::Stacked, "two tags, or 802.1ad"),
        (Form::Tunnels, "IP in IP, GRE"),
    ];
    text += &heads.map(|(_, head)| head).join(" | ");
    writeln!(text, " |\n|{}", "---|".repeat(heads.len() + 1)).unwrap();
    for (name, _) in NICS {
        let Some(nic) = seen(name) else { continue };
        let cells = heads.map(|(form, _)| cell(&nic, form));
        writeln!(text, "| `{name}` | {} |", cells.join(" | ")).unwrap();
    }
    text
}

/// The kernel whose driver was read, or on which the model is held against the driver.
fn kernels() -> String {
    let mut text =
        String::from("| model | kernel that its facts were compared with |\n|---|---|\n");
    for (name, _) in NICS {
        let graph = nic(name).unwrap();
        let source = graph.iter().map(|(_, node)| node).find(|n| n.has(&Attr::Source));
        let kernel = source.and_then(|node| node.param("kernel"));
        writeln!(text, "| `{name}` | {} |", kernel.unwrap_or("not recorded")).unwrap();
    }
    text
}

#[test]
fn the_documented_table_is_the_one_that_the_models_make() {
    hold(START, &table());
    hold(KERNELS, &kernels());
}

/// The text of the page from `start` to the next end is `made`.
fn hold(start: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(start).expect("the page has the table's first line");
    let (present, after) = rest.split_once(END).expect("the page has the table's last line");
    if std::env::var_os("WEEVER_BLESS").is_some() {
        std::fs::write(&path, [before, start, made, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(present, made, "WEEVER_BLESS=1 makes the table anew");
}
