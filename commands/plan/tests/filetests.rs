//! Runs `filetests/plan`: see the README there. A new test needs no change here.

use std::fmt::Write;
use std::path::Path;

use clap::Parser;
use weever_commands_plan::{PlanArgs, check_policy, make};
use weever_filetest::Folder;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

/// A file's parts: the lines before the first heading, and the text under each heading.
struct Test {
    runs: Vec<String>,
    parts: Vec<(String, String)>,
}

impl Test {
    fn parse(source: &str) -> Test {
        let mut test = Test { runs: Vec::new(), parts: Vec::new() };
        for line in source.lines() {
            match (line.strip_prefix("=== "), test.parts.last_mut()) {
                (Some(name), _) => test.parts.push((name.trim().into(), String::new())),
                (None, Some((_, text))) => *text = std::mem::take(text) + line + "\n",
                (None, None) => test.runs.extend(line.strip_prefix("# run: ").map(String::from)),
            }
        }
        test
    }

    /// Writes the parts as files into `folder` and runs each command.
    fn transcript(&self, folder: &Path) -> String {
        for (name, text) in &self.parts {
            std::fs::write(folder.join(name), text).expect("a writable folder");
        }
        let inside = format!("{}/", folder.display());
        let runs = self.runs.iter().map(|run| self.run(run, &inside));
        // Where the files are is no part of the claim.
        runs.collect::<String>().replace(&inside, "")
    }

    fn run(&self, run: &str, inside: &str) -> String {
        let mut out = format!("$ weever {run}\n");
        let name = |word: &str| match self.parts.iter().any(|(part, _)| part == word) {
            true => format!("{inside}{word}"),
            false => word.to_string(),
        };
        let (command, rest) = run.split_once(' ').unwrap_or((run, ""));
        let words: Vec<String> = rest.split_whitespace().map(name).collect();
        let (said, status) = match command {
            "plan" => plan(&words),
            "policy" => policy(&words[1]),
            other => panic!("no command `{other}`"),
        };
        let _ = write!(out, "{said}=> {status}\n\n");
        out
    }
}

fn plan(words: &[String]) -> (String, &'static str) {
    let line = Line::try_parse_from(words).unwrap_or_else(|e| panic!("{words:?}: {e}"));
    match make(&line.plan) {
        Ok(made) => {
            let notes = made.notes.iter().map(|n| format!("{n}\n")).collect::<String>();
            (notes + &made.text, if made.acceptable { "0" } else { "1" })
        }
        Err(error) => (format!("error: {error}\n"), "2"),
    }
}

fn policy(path: &str) -> (String, &'static str) {
    let text = std::fs::read_to_string(path).expect("the part");
    match check_policy(&text, None) {
        Ok(said) => (said + "\n", "0"),
        Err(said) => (said + "\n", "1"),
    }
}

fn transcript(name: &str, source: &str) -> Result<String, String> {
    let test = Test::parse(source);
    if test.runs.is_empty() {
        return Err("no line `# run: …`; see README.md".into());
    }
    let folder = std::env::temp_dir().join(format!("weever-plan-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let got = test.transcript(&folder);
    std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    Ok(got)
}

#[test]
fn every_file_gives_what_it_expects() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/plan");
    let folder = Folder::open(&path, "test");
    assert!(folder.files().len() >= 8, "the filetests are not there");
    folder.compare(transcript).unwrap_or_else(|wrong| panic!("{wrong}"));
}
