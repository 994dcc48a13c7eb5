//! The project's own checks: `cargo xtask check`.
//!
//! What a compiler or a linter cannot know about this project is written down as data beside this
//! crate (`rules.toml`, `exceptions.toml`), and held against `cargo metadata` and the files that
//! git knows. A failure names the place, the rule and its reason; CI runs the same command.
#![forbid(unsafe_code)]

mod clocks;
mod dependencies;
mod docs;
mod error;
mod exceptions;
mod files;
mod layers;
mod metadata;
mod names;
mod private;
mod report;
mod rules;
mod sizes;
mod source;
mod test_only;
mod unsafety;

use std::env;
use std::process::ExitCode;

use error::Error;
use exceptions::Exceptions;
use files::Tree;
use metadata::Workspace;
use report::Report;
use rules::Rules;

const USAGE: &str = "usage: cargo xtask check    check the rules that the compiler does not know";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => run_checks(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_checks() -> ExitCode {
    match check() {
        Ok(report) => {
            print!("{report}");
            if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn check() -> Result<Report, Error> {
    let workspace = Workspace::load()?;
    let rules = Rules::load(&workspace.root)?;
    let exceptions = Exceptions::load(&workspace.root)?;
    let tree = Tree::load(&workspace.root)?;
    let sources = source::parse_all(&tree)?;
    let mut report = Report::default();
    names::check(&workspace, &mut report);
    names::check_modules(&tree, &mut report);
    dependencies::check(&workspace, &rules, &mut report);
    sizes::check(&sources, &exceptions, &mut report);
    unsafety::check(&workspace, &sources, &rules, &mut report);
    clocks::check(&sources, &rules, &mut report);
    docs::check_links(&tree, &mut report);
    docs::check_dependency_reasons(&workspace, &tree, &mut report);
    private::check(&tree, &mut report);
    layers::check(&workspace, &sources, &exceptions, &mut report);
    test_only::check(&sources, &rules, &exceptions, &mut report);
    Ok(report)
}
