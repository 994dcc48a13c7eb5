//! `weever plan`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use weever_plan::embed::{Host, stated};
use weever_plan::policy::Policy;
use weever_plan::search::{Explanation, FlowId, Options, Plan, Search};
use weever_policy::Problems;
use weever_policy::flows::FlowSpec;
use weever_policy::policy::CheckedPolicy;

use crate::load::{self, Model};
use crate::render::{self, Result as Planned};
use crate::{Format, PlanArgs, PlanToolError};

/// Plans, and shows the plan. Warnings go to standard error.
///
/// # Errors
/// [`PlanToolError`] if a file is wrong. That a policy cannot be satisfied is shown with the plan
/// and told by the exit status 1.
pub fn run(args: &PlanArgs) -> std::result::Result<ExitCode, PlanToolError> {
    let made = make(args)?;
    // A closed standard error is no failure.
    let _ = made.notes.iter().try_for_each(|note| writeln!(std::io::stderr(), "{note}"));
    write(args.output.as_deref(), &made.text)?;
    Ok(if made.acceptable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A plan that was made.
#[derive(Clone, Debug)]
pub struct PlannedOutput {
    /// It, in the format that was asked for.
    pub text: String,
    /// Remarks for people beside it, a line each.
    pub notes: Vec<String>,
    /// Whether it satisfies the policy.
    pub acceptable: bool,
}

/// Plans.
///
/// # Errors
/// [`PlanToolError`] if a file is wrong.
pub fn make(args: &PlanArgs) -> std::result::Result<PlannedOutput, PlanToolError> {
    if let Some(misfit) = args.misfit() {
        return Err(misfit);
    }
    let mut notes = Vec::new();
    let mut model = load::model(args)?;
    let mut page = load::load_policy(args.policy.as_deref())?;
    let list = load::flows(args)?;
    note(&mut notes, "left out", &list.problems);
    note(&mut notes, "warning", &page.warnings);
    let cost = cost_function(&list.flows, &page, &model)?;
    let (mut flows, problems) = page.classify(list.flows);
    note(&mut notes, "class of the packets used instead", &problems);
    if args.format == Format::Ethtool {
        let lpg = render::host(flows.iter().flat_map(|flow| &flow.parts))?;
        model.nic = model.nic.with_useful(&lpg);
    }
    let options = Options {
        seed: args.seed,
        rss_key: key(args, &model)?,
        silicon: model.silicon.clone(),
        ..Options::default()
    };
    flows.extend(page.standing_flows());
    let mut search = Search::new(model.nic.clone(), cost, options);
    let ids = search.run(flows.clone());
    let plan = search.plan();
    notes.extend(plan.notes(&model.nic, &model.nic.strips()));
    if args.format == Format::Ethtool {
        let configuration = plan.configuration(model.nic.tables.len());
        let disturbed = weever_plan::ethtool::disturbances(&model.nic, &configuration);
        notes.extend(disturbed.into_iter().map(|disturbance| format!("note: {disturbance}")));
    }
    let explanations = match args.explain {
        true => explain(&mut search, &ids),
        false => Vec::new(),
    };
    let (model, page, flows, plan) = (&model, &page, &flows, &plan);
    let embedded = Vec::new();
    let mut planned = Planned { model, page, flows, plan, explanations, embedded, work: None };
    if args.graphs || args.graph.is_some() {
        let (embedded, work) = render::embedded(&planned)?;
        (planned.embedded, planned.work) = (embedded, Some(work));
    }
    Ok(PlannedOutput { text: show(args, &planned)?, notes, acceptable: plan.is_acceptable() })
}

/// The policy's cost function. The host's graph is made only if the policy asks for its costs.
fn cost_function(
    flows: &[FlowSpec],
    page: &CheckedPolicy,
    model: &Model,
) -> std::result::Result<Box<dyn Policy>, PlanToolError> {
    if page.document.paths.is_none() {
        return Ok(page.cost_function(None));
    }
    let lpg = render::host(flows.iter().flat_map(|flow| &flow.parts))?;
    let settings = model.nic.useful(&lpg);
    let vouched = stated(&model.prg, &model.nic, &settings).always();
    let single_homed = render::single_homed();
    let host = Host { lpg: &lpg, vouched: &vouched, single_homed: &single_homed };
    Ok(page.cost_function(Some(&host)))
}

fn show(args: &PlanArgs, planned: &Planned<'_>) -> std::result::Result<String, PlanToolError> {
    if let Some(queue) = args.graph {
        return render::of_queue(&planned.embedded, queue, args.format == Format::Svg);
    }
    match args.format {
        Format::Text => Ok(render::text(planned)),
        Format::Json => Ok(render::json(planned)),
        Format::Ethtool => Ok(render::ethtool(planned, &args.dev)),
        Format::Svg => render::picture(planned),
    }
}

fn explain(search: &mut Search, ids: &[FlowId]) -> Vec<(FlowId, Explanation)> {
    ids.iter().filter_map(|id| Some((*id, search.explain(*id)?))).collect()
}

fn note(notes: &mut Vec<String>, what: &str, problems: &Problems) {
    if !problems.is_empty() {
        notes.extend(problems.to_string().lines().map(|line| format!("{what}: {line}")));
    }
}

/// The key as bytes, as many as the NIC's hash wants.
fn key(args: &PlanArgs, model: &Model) -> std::result::Result<Option<Vec<u8>>, PlanToolError> {
    let Some(text) = &args.rss_key else { return Ok(None) };
    let bytes = match model.nic.rss.as_ref().map(|rss| rss.hash) {
        Some(weever_graph::nic::RssHash::Toeplitz { key_len, .. }) => key_len,
        _ => 0,
    };
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b':').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let key: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    match key.filter(|k| is_hex && k.len() == bytes as usize) {
        Some(key) => Ok(Some(key)),
        None => Err(PlanToolError::Key { text: text.clone(), bytes }),
    }
}

fn write(output: Option<&Path>, text: &str) -> std::result::Result<(), PlanToolError> {
    let failed = |file: String| move |source| PlanToolError::Write { file, source };
    match output.filter(|path| path.as_os_str() != "-") {
        Some(path) => std::fs::write(path, text).map_err(failed(load::shown(path))),
        // A reader that has seen enough (`weever plan … | head`) is no failure.
        None => match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(failed("<stdout>".into())),
        },
    }
}

/// The name of a class, for people.
pub(crate) fn class_name(page: &CheckedPolicy, class: weever_plan::flow::ClassId) -> &str {
    page.document.class_name(class)
}

/// The explanation of a flow of a plan.
pub(crate) fn explanation_of<'e>(
    explanations: &'e [(FlowId, Explanation)],
    plan: &Plan,
    flow: usize,
) -> Option<&'e Explanation> {
    let id = plan.flows.get(flow)?.id;
    // Both are in the order in which the flows came.
    explanations.get(flow).filter(|(i, _)| *i == id).map(|(_, e)| e)
}
