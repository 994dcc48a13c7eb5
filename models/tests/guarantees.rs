//! The table of what "exclusive" guarantees on which NIC, in `docs/plan.md`, is the one that the models make.

use std::fmt::Write;
use std::path::Path;

use weever_graph::Attr;
use weever_graph::nic::{FlowType, Form};
use weever_models::{NICS, nic};
use weever_plan::nic::{Disturbance, Effect, Nic, Touched};

const START: &str =
    "<!-- made from the models: WEEVER_BLESS=1 cargo test -p weever-models --test guarantees -->\n";
const KERNELS: &str = "<!-- kernels of the models: WEEVER_BLESS=1 cargo test -p weever-models --test guarantees -->\n";
const DISTURBANCES: &str = "<!-- disturbances of the models: WEEVER_BLESS=1 cargo test -p weever-models --test guarantees -->\n";
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
        let kernel =
            kernel.unwrap_or_else(|| panic!("{name}: add `attr \"kernel=…\"` to its source"));
        let digits = kernel.chars().next().is_some_and(|c| c.is_ascii_digit());
        assert!(digits && kernel.contains('.'), "{name}: `{kernel}` is no version of a kernel");
        writeln!(text, "| `{name}` | {kernel} |").unwrap();
    }
    text
}

/// What settings of the NICs that Linux configures disturb, with the function of the driver.
fn disturbances() -> String {
    let heads = [
        (Touched::Queues, "number of queues (`-L`)"),
        (Touched::Rings, "rings (`-G`)"),
        (Touched::Table, "hash (`-X`)"),
        (Touched::RulesOn, "`ntuple on`"),
        (Touched::RulesOff, "`ntuple off`"),
        (Touched::Feature("rx-vlan-hw-parse".into()), "`rx-vlan-hw-parse`"),
    ];
    let mut text = String::from("| model | ");
    text += &heads.each_ref().map(|(_, head)| *head).join(" | ");
    writeln!(text, " | other features |\n|{}", "---|".repeat(heads.len() + 2)).unwrap();
    for (name, _) in NICS {
        let nic = Nic::linux_of(&nic(name).unwrap()).unwrap();
        if nic.disturbances.is_empty() {
            continue;
        }
        let words = |fact: &Disturbance| {
            let effects: Vec<String> = fact.effects.iter().map(word).collect();
            let effects = if effects.is_empty() { "nothing".into() } else { effects.join(", ") };
            format!("{effects} (`{}`)", fact.source)
        };
        let cell = |by: &Touched| nic.disturbed_by(by).map_or("–".into(), words);
        let cells = heads.each_ref().map(|(by, _)| cell(by)).join(" | ");
        let others = nic.disturbances.iter().filter(|d| heads.iter().all(|(by, _)| *by != d.by));
        let others: Vec<String> = others.map(|d| format!("{} {}", d.by, words(d))).collect();
        writeln!(text, "| `{name}` | {cells} | {} |", others.join("; ")).unwrap();
    }
    text
}

/// An effect in a table's few words.
fn word(effect: &Effect) -> String {
    match effect {
        Effect::Reopens => "queues reopen".into(),
        Effect::Resets => "reset".into(),
        Effect::Flushes => "rules go".into(),
        Effect::Suspends => "rules rest".into(),
        Effect::Table => "table changes".into(),
        Effect::Sizes => "table has another size".into(),
        Effect::Arfs => "aRFS begins".into(),
        Effect::Atr => "ATR begins".into(),
        Effect::NoAtr => "ATR ends".into(),
        Effect::Bare => "not while there are rules".into(),
        Effect::Refused => "not possible".into(),
        Effect::With(name) => format!("switches `{name}`, too"),
    }
}

/// The models of NICs that Linux configures say what the settings of plans disturb.
#[test]
fn every_model_says_what_settings_disturb() {
    for (name, _) in NICS {
        let nic = Nic::linux_of(&nic(name).unwrap()).unwrap();
        let has =
            |by: Touched| assert!(nic.disturbed_by(&by).is_some(), "{name}: nothing about {by}");
        if ["tap", "veth", "xdp"].contains(name) {
            continue;
        }
        [Touched::Queues, Touched::Rings, Touched::Table].into_iter().for_each(has);
        if !nic.tables.is_empty() {
            [Touched::RulesOn, Touched::RulesOff].into_iter().for_each(has);
        }
        let switched = nic.features.iter().flat_map(|feature| &feature.model.ethtool);
        if switched.into_iter().any(|name| name == "tx-vlan-hw-insert") {
            has(Touched::Feature("rx-vlan-hw-parse".into()));
        }
    }
}

#[test]
fn the_documented_table_is_the_one_that_the_models_make() {
    hold(START, &table());
    hold(KERNELS, &kernels());
    hold(DISTURBANCES, &disturbances());
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
