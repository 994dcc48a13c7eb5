//! The project's own checks: `cargo xtask check`, `lines` and `instructions`.
//!
//! Rules of this project that no compiler or linter can know are written down as data beside this
//! crate (`rules.toml`, `exceptions.toml`), and held against `cargo metadata` and the files that
//! git knows. A failure names the place, the rule and its reason; CI runs the same command.
#![forbid(unsafe_code)]

mod dependencies;
mod docs;
mod files;
mod instructions;
mod layers;
mod metadata;
mod names;
mod places;
mod report;
mod rules;
mod sizes;
mod source;
mod test_only;

use std::env;
use std::process::ExitCode;

use files::Tree;
use metadata::Workspace;
use report::{Error, Findings};
use rules::{Exceptions, Rules};

const USAGE: &str = "\
usage: cargo xtask check                       hold the tree against the rules in dev/xtask
       cargo xtask lines [CHECKOUT]            count lines by room, and small files, here or elsewhere
       cargo xtask instructions --check        count instructions (needs valgrind); above +3 % fails
       cargo xtask instructions --update WHY   count them, and write dev/instructions.toml";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check().map(Some),
        ["lines"] => lines(None).map(|()| None),
        ["lines", checkout] => lines(Some(checkout)).map(|()| None),
        ["instructions", "--check"] => {
            Workspace::load().and_then(|workspace| instructions::check(&workspace)).map(Some)
        }
        ["instructions", "--update", why] if !why.trim().is_empty() => Workspace::load()
            .and_then(|workspace| instructions::update(&workspace, why))
            .map(|()| None),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(None)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(report) => {
            report.iter().for_each(|report| print!("{report}"));
            ExitCode::from(u8::from(report.is_some_and(|report| report.failed())))
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Rooms without tests, comments, documentation and blank lines; files with them.
fn lines(checkout: Option<&str>) -> Result<(), Error> {
    let root = match checkout {
        Some(checkout) => checkout.into(),
        None => Workspace::load()?.root,
    };
    print!("{}", sizes::table(&source::parse_all(&Tree::load(&root)?)?));
    Ok(())
}

fn check() -> Result<Findings, Error> {
    let workspace = Workspace::load()?;
    let rules = Rules::load(&workspace.root)?;
    let exceptions = Exceptions::load(&workspace.root)?;
    let tree = Tree::load(&workspace.root)?;
    let sources = source::parse_all(&tree)?;
    let mut report = Findings::new("check");
    names::check(&workspace, &mut report);
    names::check_modules(&tree, &mut report);
    dependencies::check(&workspace, &rules, &mut report);
    sizes::check(&sources, &exceptions, &mut report);
    sizes::check_small(&sources, &exceptions, &mut report);
    places::check_unsafe(&workspace, &sources, &rules, &mut report);
    places::check_clocks(&sources, &rules, &mut report);
    docs::check_links(&tree, &mut report);
    docs::check_dependency_reasons(&workspace, &tree, &mut report);
    places::check_private_paths(&tree, &mut report);
    layers::check(&workspace, &sources, &exceptions, &mut report);
    test_only::check(&sources, &rules, &exceptions, &mut report);
    Ok(report)
}
