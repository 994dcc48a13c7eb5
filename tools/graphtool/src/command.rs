//! The subcommands.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weever_unicorn::{Diagnostic, Loaded, has_errors, load, parse, print, render, render_styled};

use crate::{GraphToolError, file, show};

/// Work with protocol graphs in Unicorn files.
#[derive(Clone, Debug, Subcommand)]
pub enum GraphCommand {
    /// Report every mistake and doubt in FILE; exit with 1 if there is an error.
    Check(OneFile),
    /// Print FILE in the canonical layout.
    Fmt(Fmt),
    /// Draw FILE in the DOT language, for `dot -Tsvg`.
    Dot(OneFile),
    /// Show FILE's nodes by cluster: kind, ports, edges, effects.
    Show(OneFile),
}

/// The file to work on.
#[derive(Args, Clone, Debug)]
pub struct OneFile {
    /// A Unicorn file, or `-` for standard input.
    pub file: PathBuf,
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

/// Executes a command. Results go to standard output, diagnostics to standard error. The exit
/// code is 0, or 1 if the text has errors or `fmt --check` found another layout.
///
/// # Errors
/// If a file cannot be read or written; [`GraphToolError::exit_code`] is the status to exit with.
pub fn run(command: GraphCommand) -> Result<ExitCode, GraphToolError> {
    match command {
        GraphCommand::Check(OneFile { file }) => with_graph(&file, |loaded| summary(&file, loaded)),
        GraphCommand::Fmt(fmt) => format(&fmt),
        GraphCommand::Dot(OneFile { file }) => {
            with_graph(&file, |loaded| weever_graph::dot::dot(&loaded.graph))
        }
        GraphCommand::Show(OneFile { file }) => with_graph(&file, |loaded| show(&loaded.graph)),
    }
}

fn with_graph(
    path: &Path,
    output: impl FnOnce(&Loaded) -> String,
) -> Result<ExitCode, GraphToolError> {
    let source = file::read(path)?;
    match load(&source, &file::shown(path)) {
        Ok(loaded) => {
            complain(&loaded.diagnostics, &source, path);
            put(&output(&loaded));
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            complain(&errors.diagnostics, &source, path);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn summary(path: &Path, loaded: &Loaded) -> String {
    let (nodes, edges) = (loaded.graph.len(), loaded.graph.dataflow().count());
    let name = &loaded.graph.name;
    format!("{}: graph `{name}`, {nodes} nodes, {edges} edges: no errors\n", file::shown(path))
}

fn format(fmt: &Fmt) -> Result<ExitCode, GraphToolError> {
    if fmt.write && file::is_stdin(&fmt.file) {
        return Err(GraphToolError::WriteToStdin);
    }
    let source = file::read(&fmt.file)?;
    let (ast, diagnostics) = parse(&source);
    if has_errors(&diagnostics) {
        complain(&diagnostics, &source, &fmt.file);
        return Ok(ExitCode::FAILURE);
    }
    let text = print(&ast);
    if fmt.check && text != source {
        let name = file::shown(&fmt.file);
        eprintln!("{name} is not in the canonical layout; `weever graph fmt --write` changes it");
        return Ok(ExitCode::FAILURE);
    }
    if fmt.write && text != source {
        file::write(&fmt.file, &text)?;
    } else if !fmt.write && !fmt.check {
        put(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn complain(diagnostics: &[Diagnostic], source: &str, path: &Path) {
    let draw = if std::io::stderr().is_terminal() { render_styled } else { render };
    eprint!("{}", draw(diagnostics, source, &file::shown(path)));
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
fn put(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
