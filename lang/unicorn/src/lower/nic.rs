//! Lowers the clauses of NIC models to models, and reports impossible ones.

use weever_graph::nic::{
    Actions, Capacity, Exposure, Failure, FeatureModel, FlowType, Form, FormsByType, KnownForms,
    MaskScope, Part, Problem, Queues, RssHash, RssModel, TableModel, TableOrder, Work,
};
use weever_graph::{ConfigSpec, Node, NodeKind};

use super::body::Context;
use super::names::Scope;
use crate::Diagnostic;
use crate::ast::{
    self, Action, Block, ClauseKind, FeatureLine, Line, Loc, Reference, RssLine, TableLine, Text,
};

/// A limit beyond any NIC, so that pictures stay finite.
const MOST_QUEUES: u32 = 65_536;

/// The queues that the text declares, if it does.
pub(super) fn declared(scope: &Scope, diagnostics: &mut Vec<Diagnostic>) -> Option<Queues> {
    let mut first: Option<(Queues, Loc)> = None;
    for node in &scope.nodes {
        let ast::NodeKind::Queues(queues) = node.ast.kind else { continue };
        let loc = node.ast.name.loc;
        if let Some((_, before)) = first {
            let error = Diagnostic::error(loc.range(), "queues are declared twice");
            let error = error.help("declare all of them in one");
            diagnostics.push(error.related(before.range(), "first declared here"));
            continue;
        }
        check_queues(queues, loc, diagnostics);
        first = Some((queues, loc));
    }
    first.map(|(queues, _)| queues)
}

fn check_queues(queues: Queues, loc: Loc, diagnostics: &mut Vec<Diagnostic>) {
    let mut add = |message: String, help: &str| {
        diagnostics.push(Diagnostic::error(loc.range(), message).help(help));
    };
    for range in std::iter::once(queues.all).chain(queues.linux) {
        if range.lo > range.hi {
            add(format!("the range {range} is reversed"), "write the smaller one first");
        } else if range.count() > MOST_QUEUES {
            add(format!("the range {range} has more than {MOST_QUEUES} queues"), "narrow it");
        }
    }
    if let Some(linux) = queues.linux.filter(|linux| !queues.all.covers(*linux)) {
        let message = format!("Linux cannot use queues {linux} of {}", queues.all);
        add(message, "name queues that the device has");
    }
}

/// The source places of each part of a model.
struct Places {
    parts: Vec<(Part, Loc)>,
    whole: Loc,
}

impl Places {
    fn new(whole: Loc) -> Places {
        Places { parts: Vec::new(), whole }
    }

    fn of(&self, part: Part) -> Loc {
        self.parts.iter().find(|(p, _)| *p == part).map_or(self.whole, |(_, loc)| *loc)
    }
}

impl Context<'_, '_> {
    pub(super) fn table(&mut self, node: &mut Node, block: &Block<TableLine>, whole: Loc) {
        let mut places = Places::new(whole);
        let mut model = TableModel {
            matches: Vec::new(),
            flow_types: Vec::new(),
            without: Vec::new(),
            forms: KnownForms::default(),
            unclaimed: FormsByType::default(),
            mask_scope: MaskScope::Rule,
            capacity: Capacity { entries: 0, shared_with: None, costs: Vec::new() },
            order: TableOrder::Insertion,
            fails: Failure::Never,
            actions: Actions::default(),
            linux: Exposure::None,
        };
        // Forms that are listed for all flow types need those first.
        let of_forms = |line: &&Line<TableLine>| matches!(line.kind, TableLine::Forms { .. });
        let (forms, others): (Vec<_>, Vec<_>) = block.lines.iter().partition(of_forms);
        for line in others.into_iter().chain(forms) {
            self.table_line(&mut model, line, &mut places);
        }
        if !places.parts.iter().any(|(part, _)| *part == Part::Capacity) {
            let error = Diagnostic::error(whole.range(), "the table says not how many rules fit");
            self.diagnostics.push(error.help("add `capacity N`"));
            return;
        }
        let problems = match self.queues {
            Some(queues) => model.check_for(queues),
            None => model.check(),
        };
        self.report_problems(problems, &places);
        self.set(node, whole, |spec| spec.table = Some(Box::new(model)));
    }

    fn table_line(&mut self, model: &mut TableModel, line: &Line<TableLine>, places: &mut Places) {
        let part = match &line.kind {
            TableLine::Types(_) => Part::Types,
            TableLine::Match(_) => Part::Match(model.matches.len()),
            TableLine::Without(_) => Part::Without(model.without.len()),
            TableLine::Forms { .. } => Part::Forms,
            TableLine::Mask(_) => Part::Mask,
            TableLine::Capacity { .. } => Part::Capacity,
            TableLine::Cost(_) => Part::Cost(model.capacity.costs.len()),
            TableLine::Order(_) => Part::Order,
            TableLine::Fails(_) => Part::Fails,
            TableLine::Action(Action::Queue(_)) => Part::Queues,
            TableLine::Action(_) => Part::Whole,
            TableLine::Linux(_) => Part::Linux,
        };
        match part {
            // Several lines may each say a part of it.
            Part::Forms => places.parts.push((part, line.loc)),
            _ => self.once(part, line.loc, places),
        }
        match &line.kind {
            TableLine::Types(types) => model.flow_types.clone_from(types),
            TableLine::Match(m) => model.matches.push(*m),
            TableLine::Without(gap) => model.without.push(gap.clone()),
            TableLine::Forms { matched, forms, flow_types } => {
                let all =
                    if flow_types.is_empty() { &model.flow_types } else { flow_types }.clone();
                let each = all.iter().flat_map(|t| forms.iter().map(move |form| (*t, *form)));
                // Of all types, those are meant that can have the form.
                let meant =
                    |(t, form): &(FlowType, Form)| !flow_types.is_empty() || form.concerns(*t);
                each.filter(meant).for_each(|(t, form)| model.forms.note(t, form, *matched));
            }
            TableLine::Mask(scope) => model.mask_scope = *scope,
            TableLine::Capacity { entries, shared_with } => {
                model.capacity.entries = *entries;
                let shared = shared_with.as_ref();
                model.capacity.shared_with = shared.and_then(|with| self.sharing_table(with));
            }
            TableLine::Cost(cost) => model.capacity.costs.push(cost.clone()),
            TableLine::Order(order) => model.order = *order,
            TableLine::Fails(failure) => model.fails = *failure,
            TableLine::Action(Action::Queue(range)) => model.actions.queues = Some(*range),
            TableLine::Action(Action::Drop) => model.actions.drop = true,
            TableLine::Action(Action::Context) => model.actions.context = true,
            TableLine::Action(Action::None) => model.actions.none = true,
            TableLine::Linux(exposure) => model.linux = exposure.clone(),
        }
    }

    /// Notes where a part stands; reports a second one of a part that may stand only once.
    fn once(&mut self, part: Part, loc: Loc, places: &mut Places) {
        if part == Part::Whole {
            return;
        }
        if let Some((_, first)) = places.parts.iter().find(|(p, _)| *p == part) {
            let error = Diagnostic::error(loc.range(), "this was said before");
            let error = error.help("keep one of the two");
            self.diagnostics.push(error.related(first.range(), "here"));
            return;
        }
        places.parts.push((part, loc));
    }

    fn sharing_table(&mut self, reference: &Reference) -> Option<String> {
        let id = self.resolve(reference)?;
        let other = &self.scope.nodes[id.index()];
        let is_table = |c: &ast::Clause| matches!(c.kind, ClauseKind::Table(_));
        let itself = other.full_name == self.declared.full_name;
        if itself || !other.ast.body.iter().any(is_table) {
            let what = if itself { "is this table itself" } else { "has no table" };
            let message = format!("`{}` {what}, so nothing is shared", other.full_name);
            let error = Diagnostic::error(reference.loc.range(), message);
            self.diagnostics.push(error.help("name another `config` with a `table`"));
            return None;
        }
        Some(other.full_name.clone())
    }

    pub(super) fn rss(&mut self, node: &mut Node, block: &Block<RssLine>, whole: Loc) {
        let mut places = Places::new(whole);
        let (mut hash, mut entries, mut queues) = (None, None, None);
        let (mut types, mut contexts, mut unhashed) = (Vec::new(), 0, None);
        for line in &block.lines {
            let part = match &line.kind {
                RssLine::Hash(_) => Part::Hash,
                RssLine::Entries(_) => Part::Entries,
                RssLine::Queues(_) => Part::Queues,
                RssLine::Contexts(_) => Part::Types,
                RssLine::Unhashed(_) => Part::Unhashed,
                RssLine::Hashed(_) => Part::Hashed(types.len()),
            };
            self.once(part, line.loc, &mut places);
            match &line.kind {
                RssLine::Hash(h) => hash = Some(*h),
                RssLine::Entries(n) => entries = Some(*n),
                RssLine::Queues(range) => queues = Some(*range),
                RssLine::Contexts(n) => contexts = *n,
                RssLine::Unhashed(queue) => unhashed = Some(*queue),
                RssLine::Hashed(hashed) => types.push(hashed.clone()),
            }
        }
        let (Some(entries), Some(queues)) = (entries, queues.or(self.queues.map(|q| q.all))) else {
            let message = "spreading needs `entries` and `queues`";
            let help = "add for instance `entries 128` and `queues 0 .. 15`";
            return self.diagnostics.push(Diagnostic::error(whole.range(), message).help(help));
        };
        let hash = hash.unwrap_or(RssHash::Toeplitz { key_len: 40, symmetric: false });
        let model = RssModel { hash, entries, unhashed, queues, types, contexts };
        let problems = match self.queues {
            Some(queues) => model.check_for(queues),
            None => model.check(),
        };
        self.report_problems(problems, &places);
        self.set(node, whole, |spec| spec.rss = Some(Box::new(model)));
    }

    pub(super) fn feature(&mut self, node: &mut Node, block: &Block<FeatureLine>, whole: Loc) {
        let mut places = Places::new(whole);
        let mut model = FeatureModel { ethtool: Vec::new(), starts_on: true, work: Vec::new() };
        for line in &block.lines {
            let part = match &line.kind {
                FeatureLine::Ethtool(_) => Part::Linux,
                FeatureLine::Starts(_) => Part::Start,
                _ => Part::Work(model.work.len()),
            };
            self.once(part, line.loc, &mut places);
            match &line.kind {
                FeatureLine::Ethtool(names) => {
                    model.ethtool = names.iter().map(|name| name.value.clone()).collect();
                }
                FeatureLine::Starts(on) => model.starts_on = *on,
                work => match self.work(work) {
                    Some(work) => model.work.push(work),
                    // Reported; without it, the feature may look odd.
                    None => return,
                },
            }
        }
        self.report_problems(model.check(), &places);
        self.set(node, whole, |spec| spec.feature = Some(Box::new(model)));
    }

    /// What a line says of packets; `None` if its predicate is none, which has been reported.
    fn work(&mut self, line: &FeatureLine) -> Option<Work> {
        let mut of = |text: &Text| self.predicate(text);
        Some(match line {
            FeatureLine::Ethtool(_) | FeatureLine::Starts(_) => return None,
            FeatureLine::Vouches { always, text } => {
                Work::Vouches { always: *always, predicate: of(text)? }
            }
            FeatureLine::Drops(text) => Work::Drops(of(text)?),
            FeatureLine::Fills(text) => Work::Fills(of(text)?),
            FeatureLine::Cuts(types) => Work::Cuts(types.clone()),
            FeatureLine::Joins(types) => Work::Joins(types.clone()),
            FeatureLine::Takes(field) => Work::Takes(*field),
            FeatureLine::Puts(field) => Work::Puts(*field),
            FeatureLine::Stamps => Work::Stamps,
        })
    }

    fn report_problems(&mut self, problems: Vec<Problem>, places: &Places) {
        for problem in problems {
            let loc = places.of(problem.part);
            let error = Diagnostic::error(loc.range(), problem.message);
            self.diagnostics.push(error.maybe_help(problem.help));
        }
    }

    fn set(&mut self, node: &mut Node, whole: Loc, set: impl FnOnce(&mut ConfigSpec)) {
        let NodeKind::Config(spec) = &mut node.kind else { return };
        if spec.table.is_some() || spec.rss.is_some() || spec.feature.is_some() {
            let message = "the node has a table, `rss` or a feature already";
            let error = Diagnostic::error(whole.range(), message);
            return self.diagnostics.push(error.help("one config node is one of them"));
        }
        set(spec);
    }
}
