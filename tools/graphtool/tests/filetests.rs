//! Runs `filetests/unicorn`: see the README there. Nobody needs to change this file to add a test.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use weever_graphtool::{GraphCommand, Streams, run_with};

/// The commands as `weever` mounts them.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: GraphCommand,
}

/// What a command wrote, and its exit status, as the expectation shows it.
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

/// Compares one file's transcript with its `.expect`; says what is wrong.
fn check(path: &Path, update: bool) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let commands = commands(&source);
    if commands.is_empty() {
        return Err(format!("{name}: no line `// run: …`; see README.md"));
    }
    let got: String = commands.iter().map(|c| transcript(c, &source)).collect();
    let expect = path.with_extension("expect");
    if update {
        return std::fs::write(&expect, got).map_err(|e| format!("{}: {e}", expect.display()));
    }
    let wanted = std::fs::read_to_string(&expect).unwrap_or_default();
    if got == wanted {
        return Ok(());
    }
    let different = got.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    let line = different.unwrap_or(got.lines().count().min(wanted.lines().count())) + 1;
    Err(format!("{name}: differs from its .expect in line {line}; now it is:\n{got}"))
}

#[test]
fn every_file_gives_what_it_expects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/unicorn");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "unicorn"));
    files.sort();
    assert!(files.len() > 10, "the filetests are not there");
    let wrong: Vec<String> = files.iter().filter_map(|f| check(f, update).err()).collect();
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 accepts the new output", wrong.join("\n"));
}
