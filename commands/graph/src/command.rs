//! The subcommands.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weever_commands_control::Target;
use weever_graph::svg::{EVERY, Extras, svg_folded};
use weever_graph::{Finding, Graph, Severity, dot, stats, verify};
use weever_service_api::{ApplyRequest, GraphFormat, GraphRequest};
use weever_unicorn::{Diagnostic, has_errors, load, parse, print, render, render_styled, show};

use crate::{GraphToolError, Streams, file, nodes};

/// Work with protocol graphs in Unicorn files.
#[derive(Clone, Debug, Subcommand)]
pub enum GraphCommand {
    /// Reports errors, warnings and notes about FILE; the exit status is 1 if there is an error.
    Check(Check),
    /// Prints FILE in the canonical layout.
    Fmt(Fmt),
    /// Draws FILE, or the running graph with its counters, as an SVG picture.
    Svg(FoldedPicture),
    /// Draws FILE, or the running graph with its counters, in the DOT language of Graphviz.
    Dot(Picture),
    /// Shows the nodes of FILE, or of the running graph, by cluster: kind, ports, edges, effects.
    Show(PredicateText),
    /// Makes the running graph that of FILE: differing nodes change, between two packets
    Apply(Apply),
    /// The running graph in the DOT language; the same as `dot --running`.
    #[command(hide = true)]
    Live(Target),
}

/// The file to work on.
#[derive(Args, Clone, Debug)]
pub struct Input {
    /// A Unicorn file, or `-` for standard input.
    pub file: PathBuf,
    /// Give a config node (full name) one of its ports as value first, or `empty`: a table without
    /// entries; may be repeated.
    #[arg(long = "set", value_name = "NODE=VALUE", value_parser = nodes::parse)]
    pub settings: Vec<(String, String)>,
}

/// The graph to draw or to show.
#[derive(Args, Clone, Debug)]
pub struct Wanted {
    /// A Unicorn file, or `-` for standard input.
    #[arg(required_unless_present_any = RUNNING, conflicts_with_all = RUNNING)]
    pub file: Option<PathBuf>,
    /// Give a config node (full name) one of its ports as value first, or `empty`: a table without
    /// entries; may be repeated.
    #[arg(long = "set", value_name = "NODE=VALUE", value_parser = nodes::parse, conflicts_with_all = RUNNING)]
    pub settings: Vec<(String, String)>,
    /// The graph that a stack runs, with its counters, instead of a file.
    #[arg(long)]
    pub running: bool,
    /// Only the part of the running graph that this worker runs, with its counters. Workers have the
    /// numbers of queues in policies and plans; `weever queues` lists them.
    #[arg(long, visible_alias = "queue", value_name = "NUMBER")]
    pub worker: Option<u32>,
    /// Which stack.
    #[command(flatten)]
    pub target: Target,
}

/// Options that ask for the running graph.
const RUNNING: [&str; 4] = ["running", "worker", "dev", "socket"];

/// The graph to run from now on, and where.
#[derive(Args, Clone, Debug)]
pub struct Apply {
    /// A Unicorn file, or `-` for standard input. Its config nodes get the values that the running
    /// stack has for them.
    pub file: PathBuf,
    /// Which stack.
    #[command(flatten)]
    pub target: Target,
}

/// The graph to show, and in which form.
#[derive(Args, Clone, Debug)]
pub struct PredicateText {
    /// The graph.
    #[command(flatten)]
    pub wanted: Wanted,
    /// In Unicorn, to be changed and applied, instead of a list of nodes.
    #[arg(long)]
    pub unicorn: bool,
}

/// The graph to draw, and where the picture goes.
#[derive(Args, Clone, Debug)]
pub struct Picture {
    /// The graph.
    #[command(flatten)]
    pub wanted: Wanted,
    /// Write the picture to this file instead of standard output.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// The picture to draw, and how much of it.
#[derive(Args, Clone, Debug)]
pub struct FoldedPicture {
    /// The graph, and the file.
    #[command(flatten)]
    pub picture: Picture,
    /// Show all nodes of this cluster, such as RxL3IPv4, or L3IPv4 for those of that name everywhere;
    /// without it the innermost clusters are single boxes; may be repeated.
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',', conflicts_with = "all")]
    pub unfold: Vec<String>,
    /// Show all nodes of every cluster.
    #[arg(long)]
    pub all: bool,
}

/// The file to check, and how strictly.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// Check also the conditions for running the graph: every config node has a value, operands
    /// come from `true` and `false`, effects are ordered, blocking nodes are cut vertices. Effects
    /// that are not written are those of weever's blocks, if they implement every node.
    #[arg(long)]
    pub executable: bool,
    /// Count the predicates: how many ports they define, and where an opaque label is left.
    #[arg(long)]
    pub stats: bool,
}

/// The file to format, and what to do with the result.
#[derive(Args, Clone, Debug)]
pub struct Fmt {
    /// A Unicorn file, or `-` for standard input.
    pub file: PathBuf,
    /// Print nothing; exit with 1 if the file is not in the canonical layout.
    #[arg(long, conflicts_with = "write")]
    pub check: bool,
    /// Write the result back to the file.
    #[arg(long)]
    pub write: bool,
}

/// Executes a command on the process's own streams. Results go to standard output, diagnostics to
/// standard error, in colours if that is a terminal. The exit code is 0, or 1 if the text has
/// errors or `fmt --check` found another layout.
///
/// # Errors
/// If a file cannot be read or written; [`GraphToolError::exit_code`] is the status to exit with.
pub fn run(command: GraphCommand) -> Result<ExitCode, GraphToolError> {
    run_with(
        command,
        &mut Streams {
            input: &mut std::io::stdin().lock(),
            output: &mut std::io::stdout().lock(),
            errors: &mut std::io::stderr().lock(),
            colours: std::io::stderr().is_terminal(),
        },
    )
}

/// The same with given streams.
///
/// # Errors
/// As [`run`].
pub fn run_with(command: GraphCommand, streams: &mut Streams) -> Result<ExitCode, GraphToolError> {
    match command {
        GraphCommand::Check(Check { input, executable, stats: counted }) => {
            let depth = if executable { Depth::Executable } else { Depth::Check };
            let name = file::shown(&input.file);
            let graph = load_graph(&input, depth, streams)?;
            let counts = |graph: &Graph| if counted { predicates(graph) } else { String::new() };
            put_out(graph.map(|graph| summary(&name, &graph) + &counts(&graph)), streams)
        }
        GraphCommand::Fmt(fmt) => format(&fmt, streams),
        GraphCommand::Svg(FoldedPicture { picture, unfold, all }) => {
            let unfold = if all { vec![EVERY.to_owned()] } else { unfold };
            draw(&picture, GraphFormat::Svg, &unfold, streams)
        }
        GraphCommand::Dot(picture) => draw(&picture, GraphFormat::Dot, &[], streams),
        GraphCommand::Show(shown) => {
            let format = if shown.unicorn { GraphFormat::Unicorn } else { GraphFormat::Text };
            put_out(text_of(&shown.wanted, format, &[], streams)?, streams)
        }
        GraphCommand::Apply(apply) => apply_file(&apply, streams),
        GraphCommand::Live(target) => {
            put_out(Some(target.ask(&GraphRequest::default())?.text), streams)
        }
    }
}

/// The counts of a graph's predicates, and the labels whose meaning only a block knows.
fn predicates(graph: &Graph) -> String {
    let counted = stats(graph);
    let mut text = format!(
        "predicates: {} of {} nodes with several ports state them; {} of {} ports are defined by fields and sets\n\
         opaque predicates: {}\n",
        counted.stating,
        counted.choosing,
        counted.defined,
        counted.ports,
        counted.opaque.len(),
    );
    counted.opaque.iter().for_each(|(node, test)| text += &format!("  {node}: {test}\n"));
    text
}

fn draw(
    picture: &Picture,
    format: GraphFormat,
    unfold: &[String],
    s: &mut Streams,
) -> Result<ExitCode, GraphToolError> {
    let text = text_of(&picture.wanted, format, unfold, s)?;
    match (&picture.output, &text) {
        (Some(path), Some(text)) if !file::is_stdin(path) => {
            file::write(path, text)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => put_out(text, s),
    }
}

/// Mistakes and doubts about the text are reported here, before the stack hears of it.
fn apply_file(apply: &Apply, streams: &mut Streams) -> Result<ExitCode, GraphToolError> {
    let source = file::read(&apply.file, streams)?;
    let name = file::shown(&apply.file);
    match load(&source, &name) {
        // Doubts are no reason not to run it, but nobody may have asked `check` for them.
        Ok(loaded) => complain(&loaded.diagnostics, &source, &apply.file, streams),
        Err(errors) => {
            complain(&errors.diagnostics, &source, &apply.file, streams);
            return Ok(ExitCode::FAILURE);
        }
    }
    let changed = apply.target.ask(&ApplyRequest::new(name.as_str(), source))?;
    let what = match changed.steps {
        0 => ": it runs already".into(),
        _ => weever_commands_control::described(&changed),
    };
    put_out(Some(format!("{name}{what}\n")), streams)
}

fn put_out(text: Option<String>, streams: &mut Streams) -> Result<ExitCode, GraphToolError> {
    let Some(text) = text else { return Ok(ExitCode::FAILURE) };
    put(streams.output, &text);
    Ok(ExitCode::SUCCESS)
}

/// The graph in this format; none if the file has errors, which have been reported.
fn text_of(
    wanted: &Wanted,
    format: GraphFormat,
    unfold: &[String],
    streams: &mut Streams,
) -> Result<Option<String>, GraphToolError> {
    let Some(file) = &wanted.file else {
        let request = GraphRequest { format, worker: wanted.worker, unfold: unfold.to_vec() };
        return Ok(Some(wanted.target.ask(&request)?.text));
    };
    if format == GraphFormat::Unicorn {
        return Ok(Some(file::read(file, streams)?));
    }
    let input = Input { file: file.clone(), settings: wanted.settings.clone() };
    let Some(graph) = load_graph(&input, Depth::Use, streams)? else { return Ok(None) };
    match format {
        GraphFormat::Svg => svg_of_file(&graph, unfold).map(Some),
        GraphFormat::Dot => Ok(Some(dot::dot(&graph))),
        _ => Ok(Some(show(&graph))),
    }
}

fn svg_of_file(graph: &Graph, unfold: &[String]) -> Result<String, GraphToolError> {
    let condition = |id| weever_unicorn::condition(graph, id);
    let extras = Extras { condition: Some(&condition), ..Extras::default() };
    Ok(svg_folded(graph, &extras, unfold)?)
}

/// How much there is to say about the graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// No notes: the graph itself is wanted.
    Use,
    /// Everything that loading finds.
    Check,
    /// Also the findings of verification.
    Executable,
}

/// The graph of a file; none if it has errors, which have been reported.
fn load_graph(
    input: &Input,
    depth: Depth,
    streams: &mut Streams,
) -> Result<Option<Graph>, GraphToolError> {
    let path = input.file.as_path();
    let source = file::read(path, streams)?;
    let (mut graph, mut diagnostics) = match load(&source, &file::shown(path)) {
        Ok(loaded) => (loaded.graph, loaded.diagnostics),
        Err(errors) => {
            complain(&errors.diagnostics, &source, path, streams);
            return Ok(None);
        }
    };
    if depth == Depth::Use {
        diagnostics.retain(|d| d.severity > Severity::Note);
    }
    let set = set(&mut graph, input, streams);
    if set && depth == Depth::Executable {
        let mut more = findings(&graph);
        more.retain(|d| !diagnostics.contains(d));
        diagnostics.extend(more);
        diagnostics.sort_by_key(|d| d.span.start);
    }
    complain(&diagnostics, &source, path, streams);
    Ok((set && !has_errors(&diagnostics)).then_some(graph))
}

/// Everything verification says; errors alone if there are any.
fn findings(graph: &Graph) -> Vec<Diagnostic> {
    let mut annotated = graph.clone();
    let unknown = nodes::annotate(&mut annotated);
    match verify(annotated) {
        Ok(verified) => {
            let findings = verified.warnings().chain(verified.notes());
            findings.map(Diagnostic::from).chain(unknown).collect()
        }
        Err(errors) => errors.iter().map(|error| with_remedy(graph, error)).collect(),
    }
}

fn with_remedy(graph: &Graph, finding: &Finding) -> Diagnostic {
    let diagnostic = Diagnostic::from(finding);
    match nodes::remedy(graph, finding) {
        Some(remedy) => diagnostic.help(remedy),
        None => diagnostic,
    }
}

fn set(graph: &mut Graph, input: &Input, streams: &mut Streams) -> bool {
    for (node, value) in &input.settings {
        if let Err(error) = nodes::apply(graph, node, value) {
            put(streams.errors, &format!("error: --set {node}={value}: {error}\n"));
            return false;
        }
    }
    true
}

fn summary(name: &str, graph: &Graph) -> String {
    let (nodes, edges) = (graph.len(), graph.dataflow().count());
    format!("{name}: graph `{}`, {nodes} nodes, {edges} edges: no errors\n", graph.name)
}

fn format(fmt: &Fmt, streams: &mut Streams) -> Result<ExitCode, GraphToolError> {
    if fmt.write && file::is_stdin(&fmt.file) {
        return Err(GraphToolError::WriteToStdin);
    }
    let source = file::read(&fmt.file, streams)?;
    let (ast, diagnostics) = parse(&source);
    if has_errors(&diagnostics) {
        complain(&diagnostics, &source, &fmt.file, streams);
        return Ok(ExitCode::FAILURE);
    }
    let text = print(&ast);
    if fmt.check && text != source {
        let name = file::shown(&fmt.file);
        let advice = "`weever graph fmt --write` changes it";
        put(streams.errors, &format!("{name} is not in the canonical layout; {advice}\n"));
        return Ok(ExitCode::FAILURE);
    }
    if fmt.write && text != source {
        file::write(&fmt.file, &text)?;
    } else if !fmt.write && !fmt.check {
        put(streams.output, &text);
    }
    Ok(ExitCode::SUCCESS)
}

fn complain(diagnostics: &[Diagnostic], source: &str, path: &Path, streams: &mut Streams) {
    let draw = if streams.colours { render_styled } else { render };
    put(streams.errors, &draw(diagnostics, source, &file::shown(path)));
}

/// A reader that has gone away (`| head`) is no error.
fn put(stream: &mut dyn Write, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}
