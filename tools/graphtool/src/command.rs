//! The subcommands.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weever_graph::{Finding, Graph, Severity, dot, verify};
use weever_unicorn::{Diagnostic, has_errors, load, parse, print, render, render_styled};

use crate::{GraphToolError, Streams, blocks, file, setting, show};

/// Work with protocol graphs in Unicorn files.
#[derive(Clone, Debug, Subcommand)]
pub enum GraphCommand {
    /// Report every mistake and doubt in FILE; exit with 1 if there is an error.
    Check(Check),
    /// Print FILE in the canonical layout.
    Fmt(Fmt),
    /// Draw FILE in the DOT language, for `dot -Tsvg`.
    Dot(Input),
    /// Draw FILE as an SVG picture.
    Svg(Svg),
    /// Show FILE's nodes by cluster: kind, ports, edges, effects.
    Show(Input),
}

/// The file to work on.
#[derive(Args, Clone, Debug)]
pub struct Input {
    /// A Unicorn file, or `-` for standard input.
    pub file: PathBuf,
    /// Give a config node (full name) one of its ports as value first, or `empty`: a table without
    /// entries; may be repeated.
    #[arg(long = "set", value_name = "NODE=VALUE", value_parser = setting::parse)]
    pub settings: Vec<(String, String)>,
}

/// The file to draw, and where the picture goes.
#[derive(Args, Clone, Debug)]
pub struct Svg {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// Write the picture to this file.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// The file to check, and how strictly.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// Check also what must hold before the graph can run: every config node has a value, operands
    /// come from `true` and `false`, effects are ordered, blocking nodes are cut vertices. Effects
    /// that are not written are those of weever's blocks, if they implement every node.
    #[arg(long)]
    pub executable: bool,
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
        GraphCommand::Check(Check { input, executable }) => {
            let depth = if executable { Depth::Executable } else { Depth::Check };
            let name = file::shown(&input.file);
            with_graph(&input, depth, streams, |graph| summary(&name, graph))
        }
        GraphCommand::Fmt(fmt) => format(&fmt, streams),
        GraphCommand::Dot(input) => with_graph(&input, Depth::Use, streams, dot::dot),
        GraphCommand::Svg(Svg { input, output }) => {
            let _ = output;
            with_graph(&input, Depth::Use, streams, weever_graph::svg::svg)
        }
        GraphCommand::Show(input) => with_graph(&input, Depth::Use, streams, show),
    }
}

/// How much there is to say about the graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// No notes: the graph itself is wanted.
    Use,
    /// Everything that loading finds.
    Check,
    /// Also what verification finds.
    Executable,
}

fn with_graph(
    input: &Input,
    depth: Depth,
    streams: &mut Streams,
    output: impl FnOnce(&Graph) -> String,
) -> Result<ExitCode, GraphToolError> {
    let path = input.file.as_path();
    let source = file::read(path, streams)?;
    let (mut graph, mut diagnostics) = match load(&source, &file::shown(path)) {
        Ok(loaded) => (loaded.graph, loaded.diagnostics),
        Err(errors) => {
            complain(&errors.diagnostics, &source, path, streams);
            return Ok(ExitCode::FAILURE);
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
    if !set || has_errors(&diagnostics) {
        return Ok(ExitCode::FAILURE);
    }
    put(streams.output, &output(&graph));
    Ok(ExitCode::SUCCESS)
}

/// Everything verification says; errors alone if there are any.
fn findings(graph: &Graph) -> Vec<Diagnostic> {
    let mut annotated = graph.clone();
    let unknown = blocks::annotate(&mut annotated);
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
    match setting::remedy(graph, finding) {
        Some(remedy) => diagnostic.help(remedy),
        None => diagnostic,
    }
}

fn set(graph: &mut Graph, input: &Input, streams: &mut Streams) -> bool {
    for (node, value) in &input.settings {
        if let Err(error) = setting::apply(graph, node, value) {
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
