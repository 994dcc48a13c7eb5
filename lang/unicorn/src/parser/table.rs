//! `table { … }`: the capabilities of a NIC's filter table.

use weever_graph::Field;
use weever_graph::nic::{
    Cost, CostScope, Ethtool, Exposure, Failure, FieldMatch, FlowType, Form, Granularity, Location,
    MaskScope, TableOrder, Without,
};
use weever_suggest::did_you_mean;

use super::cursor::Parser;
use crate::ast::{Action, ClauseKind, TableLine};
use crate::predicate::field_name;
use crate::token::Kind;

const LINES: [&str; 11] = [
    "types", "with", "without", "match", "mask", "capacity", "cost", "priority", "fails", "action",
    "linux",
];

/// Names that people try, and their meaning here.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("ip.src", "ip4.src"),
    ("ip.dst", "ip4.dst"),
    ("ip.proto", "ip4.proto"),
    ("l4.sport", "l4.src"),
    ("l4.dport", "l4.dst"),
    ("tcp.src", "l4.src"),
    ("tcp.dst", "l4.dst"),
    ("udp.src", "l4.src"),
    ("udp.dst", "l4.dst"),
];

impl Parser<'_> {
    pub(super) fn table(&mut self) -> Option<ClauseKind> {
        self.block("table", &LINES, Self::table_line).map(ClauseKind::Table)
    }

    fn table_line(&mut self, word: &str) -> Option<TableLine> {
        Some(match word {
            "types" => TableLine::Types(self.flow_types()?),
            "match" => TableLine::Match(self.field_match()?),
            "with" => self.forms(true)?,
            "without" if self.word().and_then(Form::from_name).is_some() => self.forms(false)?,
            "without" => TableLine::Without(self.without()?),
            "mask" => TableLine::Mask(self.mask_scope()?),
            "capacity" => self.capacity()?,
            "cost" => TableLine::Cost(self.cost()?),
            "priority" => TableLine::Order(self.order()?),
            "fails" => TableLine::Fails(self.failure()?),
            "action" => TableLine::Action(self.action()?),
            _ => TableLine::Linux(self.exposure()?),
        })
    }

    /// At least one flow type.
    pub(super) fn flow_types(&mut self) -> Option<Vec<FlowType>> {
        let mut types = vec![self.flow_type()?];
        while let Some(flow_type) = self.word().and_then(FlowType::from_name) {
            self.bump();
            types.push(flow_type);
        }
        Some(types)
    }

    /// The types that rules of a flow type leave out, as `tcp4 udp4 in ip4`.
    fn without(&mut self) -> Option<Without> {
        let packets = self.flow_types()?;
        self.keyword("in")?;
        Some(Without { flow_type: self.flow_type()?, packets })
    }

    /// Forms of packets, as `first later in udp4 tcp4`.
    fn forms(&mut self, matched: bool) -> Option<TableLine> {
        let word = self.one_of(&Form::ALL.map(Form::name), "a form of packets")?;
        let mut forms = Vec::from_iter(Form::from_name(word));
        while let Some(form) = self.word().and_then(Form::from_name) {
            self.bump();
            forms.push(form);
        }
        let flow_types = if self.take_keyword("in") { self.flow_types()? } else { Vec::new() };
        Some(TableLine::Forms { matched, forms, flow_types })
    }

    fn flow_type(&mut self) -> Option<FlowType> {
        let word = self.one_of(&FlowType::ALL.map(FlowType::name), "a flow type")?;
        FlowType::from_name(word)
    }

    fn field_match(&mut self) -> Option<FieldMatch> {
        let field = self.field()?;
        let words = Granularity::ALL.map(Granularity::name);
        let word = self.one_of(&words, "how finely rules may match the field")?;
        let granularity = Granularity::ALL.into_iter().find(|g| g.name() == word)?;
        Some(FieldMatch { field, granularity })
    }

    /// A field, as `ip4.src`.
    pub(super) fn field(&mut self) -> Option<Field> {
        let start = self.here().start;
        let dotted =
            self.kind() == Kind::Word && self.ahead(1) == Kind::Dot && self.ahead(2) == Kind::Word;
        if !dotted {
            let help = "fields are written as `ip4.src` or `l4.dst`";
            self.error_after("expected a packet's field", Some(help.into()));
            return None;
        }
        for _ in 0..3 {
            self.bump();
        }
        let name: String =
            self.source[start..self.last_end()].split_whitespace().collect::<Vec<_>>().concat();
        let found = Field::ALL.into_iter().find(|f| field_name(*f) == name);
        if found.is_none() {
            let span = start..self.last_end();
            let message = format!("there is no field `{name}`");
            let error = crate::Diagnostic::error(span, message);
            self.report(error.help(meant_field(&name)));
        }
        found
    }

    fn mask_scope(&mut self) -> Option<MaskScope> {
        self.keyword("per")?;
        let scopes = [
            ("rule", MaskScope::Rule),
            ("flowtype", MaskScope::FlowType),
            ("link", MaskScope::Link),
        ];
        self.choice(scopes, "which rules have to agree on their masks")
    }

    /// One of several words, each with its meaning.
    fn choice<T: Copy, const N: usize>(
        &mut self,
        of: [(&'static str, T); N],
        what: &str,
    ) -> Option<T> {
        let word = self.one_of(&of.map(|(word, _)| word), what)?;
        of.into_iter().find(|(w, _)| *w == word).map(|(_, meaning)| meaning)
    }

    fn capacity(&mut self) -> Option<TableLine> {
        let entries = self.number("the number of entries")?;
        let mut shared_with = None;
        if self.take_keyword("shared") {
            self.keyword("with")?;
            shared_with = Some(self.reference()?);
        }
        Some(TableLine::Capacity { entries, shared_with })
    }

    fn cost(&mut self) -> Option<Cost> {
        let entries = self.number("how many entries a rule takes")?;
        self.keyword("per")?;
        self.keyword("rule")?;
        let when = match self.take_keyword("when") {
            false => CostScope::Always,
            true if self.kind() == Kind::Text => CostScope::Said(self.text("a condition")?.value),
            true => CostScope::Types(self.flow_types()?),
        };
        Some(Cost { entries, when })
    }

    fn order(&mut self) -> Option<TableOrder> {
        if self.kind() == Kind::OfType {
            let range = self.range("a priority")?;
            return Some(TableOrder::Priority { lo: range.lo, hi: range.hi });
        }
        let orders = [
            ("more_specific", TableOrder::MoreSpecific),
            ("more_fields", TableOrder::MoreFields),
            ("location", TableOrder::Location),
            ("insertion", TableOrder::Insertion),
        ];
        self.choice(orders, "a range of priorities, or what wins")
    }

    fn failure(&mut self) -> Option<Failure> {
        if !self.choice([("never", false), ("hash", true)], "when inserting fails")? {
            return Some(Failure::Never);
        }
        self.keyword("rows")?;
        let rows = self.number("the number of rows")?;
        self.keyword("probes")?;
        Some(Failure::Hash { rows, probes: self.number("the number of probes")? })
    }

    fn action(&mut self) -> Option<Action> {
        let words = ["queue", "drop", "context", "none"];
        Some(match self.one_of(&words, "the action of a rule")? {
            "queue" => Action::Queue(self.range("a queue")?),
            "drop" => Action::Drop,
            "context" => Action::Context,
            _ => Action::None,
        })
    }

    fn exposure(&mut self) -> Option<Exposure> {
        let exposed =
            self.choice([("none", false), ("ethtool", true)], "the part that Linux exposes")?;
        match exposed {
            true => self.ethtool().map(Exposure::Ethtool),
            false => Some(Exposure::None),
        }
    }

    fn ethtool(&mut self) -> Option<Ethtool> {
        let mut out = Ethtool {
            flow_types: Vec::new(),
            matches: Vec::new(),
            location: Location::Any,
            limit: None,
            locations: None,
            drop: false,
            context: false,
            context_types: Vec::new(),
        };
        self.expect(Kind::BraceOpen, "expected `{` after `ethtool`")?;
        while !self.bump_if(Kind::BraceClose) {
            if !self.bump_if(Kind::Semicolon) && self.ethtool_part(&mut out).is_none() {
                self.skip_ethtool();
                return None;
            }
        }
        Some(out)
    }

    fn skip_ethtool(&mut self) {
        while !matches!(self.kind(), Kind::BraceClose | Kind::BraceOpen | Kind::End) {
            self.bump();
        }
        self.bump_if(Kind::BraceClose);
    }

    fn ethtool_part(&mut self, out: &mut Ethtool) -> Option<()> {
        if let Some(flow_type) = self.word().and_then(FlowType::from_name) {
            self.bump();
            out.flow_types.push(flow_type);
            return Some(());
        }
        let words = ["match", "location", "limit", "locations", "drop", "context"];
        match self.one_of(&words, "a flow type, or a limit of `ethtool`")? {
            "match" => out.matches.push(self.field_match()?),
            "location" => {
                let chooser = [("any", Location::Any), ("mandatory", Location::Mandatory)];
                out.location = self.choice(chooser, "the side that chooses a rule's location")?;
            }
            "limit" => out.limit = Some(self.number("the number of rules")?),
            "locations" => out.locations = Some(self.number("the device's locations")?),
            "context" => {
                out.context = true;
                while let Some(flow_type) = self.word().and_then(FlowType::from_name) {
                    self.bump();
                    out.context_types.push(flow_type);
                }
            }
            _ => out.drop = true,
        }
        Some(())
    }
}

fn meant_field(name: &str) -> String {
    if let Some((_, meant)) = OTHER_NAMES.iter().find(|(other, _)| *other == name) {
        return format!("did you mean `{meant}`?");
    }
    let known = Field::ALL.map(field_name);
    let all = || format!("fields are {}", known.join(", "));
    did_you_mean(name, known).unwrap_or_else(all)
}
