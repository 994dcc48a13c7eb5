//! The clauses of NIC models as text.

use weever_graph::nic::{
    Cost, CostScope, Ethtool, Exposure, Failure, FieldMatch, FlowType, Location, MaskScope, Queues,
    RssHash, TableOrder,
};

use super::printer::{Printer, WIDTH, quoted_str, reference};
use crate::ast::{Action, Block, FeatureLine, Line, RssLine, TableLine, Text};
use crate::predicate::field_name;

impl Printer {
    pub(super) fn table(&mut self, table: &Block<TableLine>) {
        self.block("table", table, |printer, line| match line {
            TableLine::Linux(Exposure::Ethtool(ethtool)) => printer.ethtool(ethtool),
            other => printer.out.push_str(&table_line(other)),
        });
    }

    pub(super) fn rss(&mut self, rss: &Block<RssLine>) {
        self.block("rss", rss, |printer, line| printer.out.push_str(&rss_line(line)));
    }

    pub(super) fn feature(&mut self, feature: &Block<FeatureLine>) {
        self.block("feature", feature, |printer, line| printer.out.push_str(&feature_line(line)));
    }

    fn block<K>(&mut self, word: &str, block: &Block<K>, line: impl Fn(&mut Printer, &K)) {
        self.out.push_str(word);
        if block.lines.is_empty() && block.tail.is_empty() {
            return self.out.push_str(" {}");
        }
        self.out.push_str(" {\n");
        self.indent += 1;
        for Line { kind, comments, .. } in &block.lines {
            self.comment_lines(&comments.leading);
            self.start("");
            line(self, kind);
            self.end(comments);
        }
        self.comment_lines(&block.tail);
        self.indent -= 1;
        self.start("}");
    }

    /// On one line if it fits.
    fn ethtool(&mut self, ethtool: &Ethtool) {
        let parts = ethtool_parts(ethtool);
        let line = format!("linux ethtool {{ {} }}", parts.join("; "));
        if self.column() + line.len() <= WIDTH {
            return self.out.push_str(&line);
        }
        self.out.push_str("linux ethtool {\n");
        self.indent += 1;
        for part in parts {
            self.start(&format!("{part}\n"));
        }
        self.indent -= 1;
        self.start("}");
    }
}

fn types(types: &[FlowType]) -> String {
    types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" ")
}

fn field_match(FieldMatch { field, granularity }: &FieldMatch) -> String {
    format!("match {} {}", field_name(*field), granularity.name())
}

fn table_line(line: &TableLine) -> String {
    match line {
        TableLine::Types(list) => format!("types {}", types(list)),
        TableLine::Match(m) => field_match(m),
        TableLine::Without(gap) => {
            format!("without {} in {}", types(&gap.packets), gap.flow_type.name())
        }
        TableLine::Forms { matched, forms, flow_types } => {
            let word = if *matched { "with" } else { "without" };
            let forms = forms.iter().map(|form| form.name()).collect::<Vec<_>>().join(" ");
            match flow_types.is_empty() {
                true => format!("{word} {forms}"),
                false => format!("{word} {forms} in {}", types(flow_types)),
            }
        }
        TableLine::Mask(MaskScope::Rule) => "mask per rule".into(),
        TableLine::Mask(MaskScope::FlowType) => "mask per flowtype".into(),
        TableLine::Mask(MaskScope::Link) => "mask per link".into(),
        TableLine::Capacity { entries, shared_with: None } => format!("capacity {entries}"),
        TableLine::Capacity { entries, shared_with: Some(with) } => {
            format!("capacity {entries} shared with {}", reference(with))
        }
        TableLine::Cost(Cost { entries, when }) => {
            let when = match when {
                CostScope::Always => String::new(),
                CostScope::Types(list) => format!(" when {}", types(list)),
                CostScope::Said(condition) => format!(" when {}", quoted_str(condition)),
            };
            format!("cost {entries} per rule{when}")
        }
        TableLine::Order(order) => match order {
            TableOrder::Priority { lo, hi } => format!("priority {lo} .. {hi}"),
            TableOrder::MoreSpecific => "priority more_specific".into(),
            TableOrder::MoreFields => "priority more_fields".into(),
            TableOrder::Location => "priority location".into(),
            TableOrder::Insertion => "priority insertion".into(),
        },
        TableLine::Fails(Failure::Never) => "fails never".into(),
        TableLine::Fails(Failure::Hash { rows, probes }) => {
            format!("fails hash rows {rows} probes {probes}")
        }
        TableLine::Action(action) => match action {
            Action::Queue(range) => format!("action queue {range}"),
            Action::Drop => "action drop".into(),
            Action::Context => "action context".into(),
            Action::None => "action none".into(),
        },
        TableLine::Linux(_) => "linux none".into(),
    }
}

fn ethtool_parts(ethtool: &Ethtool) -> Vec<String> {
    let mut parts = Vec::new();
    if !ethtool.flow_types.is_empty() {
        parts.push(types(&ethtool.flow_types));
    }
    parts.extend(ethtool.matches.iter().map(field_match));
    let chooser = match ethtool.location {
        Location::Any => "any",
        Location::Mandatory => "mandatory",
    };
    parts.push(format!("location {chooser}"));
    parts.extend(ethtool.limit.map(|limit| format!("limit {limit}")));
    parts.extend(ethtool.locations.map(|locations| format!("locations {locations}")));
    if ethtool.drop {
        parts.push("drop".into());
    }
    if ethtool.context {
        let of = &ethtool.context_types;
        parts.push(if of.is_empty() { "context".into() } else { format!("context {}", types(of)) });
    }
    parts
}

fn rss_line(line: &RssLine) -> String {
    match line {
        RssLine::Hash(RssHash::Toeplitz { key_len, symmetric }) => {
            format!("hash toeplitz key {key_len}{}", if *symmetric { " symmetric" } else { "" })
        }
        RssLine::Hash(RssHash::Crc32) => "hash crc32".into(),
        RssLine::Hash(RssHash::Xor) => "hash xor".into(),
        RssLine::Hash(RssHash::Own) => "hash own".into(),
        RssLine::Unhashed(queue) => format!("unhashed queue {queue}"),
        RssLine::Entries(entries) => format!("entries {entries}"),
        RssLine::Queues(range) => format!("queues {range}"),
        RssLine::Contexts(contexts) => format!("contexts {contexts}"),
        RssLine::Hashed(hashed) => {
            let choices: Vec<&str> = hashed.choices.iter().map(|c| c.name()).collect();
            format!("{} {}", hashed.flow_type, choices.join(" or "))
        }
    }
}

fn feature_line(line: &FeatureLine) -> String {
    match line {
        FeatureLine::Ethtool(names) => {
            names.iter().fold("ethtool".into(), |all, name| format!("{all} {}", quoted(name)))
        }
        FeatureLine::Starts(on) => format!("starts {}", if *on { "on" } else { "off" }),
        FeatureLine::Vouches { always, text } => {
            format!("vouches {} {}", if *always { "always" } else { "each" }, quoted(text))
        }
        FeatureLine::Drops(text) => format!("drops {}", quoted(text)),
        FeatureLine::Fills(text) => format!("fills {}", quoted(text)),
        FeatureLine::Cuts(list) => format!("cuts {}", types(list)),
        FeatureLine::Joins(list) => format!("joins {}", types(list)),
        FeatureLine::Takes(field) => format!("takes {}", field_name(*field)),
        FeatureLine::Puts(field) => format!("puts {}", field_name(*field)),
        FeatureLine::Stamps => "stamps".into(),
    }
}

fn quoted(text: &Text) -> String {
    quoted_str(&text.value)
}

pub(super) fn queues(queues: &Queues) -> String {
    let linux = queues.linux.map(|l| format!(" linux {l}")).unwrap_or_default();
    format!("{}{linux}", queues.all)
}
