//! Runs `filetests/unicorn`: see the README there. Nobody needs to change this file to add a test.

use std::fmt::Write;
use std::path::Path;

use clap::Parser;
use weever_commands_graph::{GraphCommand, Streams, run_with};
use weever_filetest::Folder;

/// The commands as `weever` mounts them.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: GraphCommand,
}

/// A command's output and its exit status, as the expectation shows them.
fn transcript(arguments: &str, source: &str) -> String {
    let mut out = format!("$ weever graph {arguments} -\n");
    let words = arguments.split_whitespace().chain(["-"]);
    let line = Line::try_parse_from(words).unwrap_or_else(|e| panic!("// run: {arguments}: {e}"));
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut source.as_bytes(),
        output: &mut output,
        errors: &mut errors,
        colours: false,
    };
    let result = run_with(line.command, &mut streams);
    out.push_str(&String::from_utf8_lossy(&errors));
    out.push_str(&String::from_utf8_lossy(&output));
    let status = match result {
        Ok(code) => format!("{code:?}"),
        Err(error) => error.to_string(),
    };
    let _ = writeln!(out, "=> {}", if status.contains("(0)") { "ok" } else { "failed" });
    out
}

fn commands(source: &str) -> Vec<&str> {
    source.lines().filter_map(|l| l.strip_prefix("// run: ")).map(str::trim).collect()
}

#[test]
fn every_file_gives_what_it_expects() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/unicorn");
    let folder = Folder::open(&path, "unicorn");
    assert!(folder.files().len() > 10, "the filetests are not there");
    let compared = folder.compare(|_, source| {
        let commands = commands(source);
        if commands.is_empty() {
            return Err("no line `// run: …`; see README.md".into());
        }
        Ok(commands.iter().map(|c| transcript(c, source)).collect())
    });
    compared.unwrap_or_else(|wrong| panic!("{wrong}"));
}
