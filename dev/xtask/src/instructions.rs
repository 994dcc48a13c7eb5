//! `cargo xtask instructions`: instruction counts of fixed scenarios, held against the tree's.
//!
//! `weever bench instructions` does the work, callgrind counts. A count is nearly the same on every
//! run and on every x86-64 machine, so a few percent more are a finding, where a time would be noise.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{fs, iter, thread};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde::Deserialize;

use crate::metadata::Workspace;
use crate::report::Error;
use crate::report::Findings;
use crate::rules::load_toml;

/// The figures of the tree.
const FIGURES: &str = "dev/instructions.toml";
/// A count that exceeds the tree's figure by more than this many percent is a failure.
const TOLERANCE: f64 = 3.0;
/// The function that callgrind counts, by a pattern that any mangling of its name matches.
const COUNTED: &str = "*instructions*counted*";

/// One scenario's figure.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Instructions per unit of work.
    pub(crate) instructions: f64,
    /// The unit of work: packet, flow, change.
    pub(crate) per: String,
    /// The reason for the figure, written whenever it changes.
    pub(crate) why: String,
}

type Figures = BTreeMap<String, Figure>;

/// Counts every scenario and holds it against the tree; the report fails if one needs too many.
pub(crate) fn check(workspace: &Workspace) -> Result<Findings, Error> {
    let listed: Figures = load_toml(&workspace.root.join(FIGURES))?;
    let counted = count_all(workspace)?;
    let mut report = Findings::new("instructions");
    print!("{}", table(&listed, &counted));
    compare(&listed, &counted, &mut report);
    Ok(report)
}

/// Counts every scenario and writes the figures, with the reason for those that moved.
pub(crate) fn update(workspace: &Workspace, why: &str) -> Result<(), Error> {
    let path = workspace.root.join(FIGURES);
    let listed: Figures = if path.exists() { load_toml(&path)? } else { Figures::new() };
    let counted = count_all(workspace)?;
    print!("{}", table(&listed, &counted));
    let text = written(&listed, counted, why);
    fs::write(&path, text).map_err(|source| Error::Write { path, source })
}

fn compare(listed: &Figures, counted: &Figures, report: &mut Findings) {
    for (name, figure) in counted {
        let Some(before) = listed.get(name) else {
            report.fail(FIGURES, name, "is not listed: cargo xtask instructions --update WHY");
            continue;
        };
        let percent = percent(before, figure);
        let change = format!(
            "{:.1} instructions per {}, {percent:+.1} % against {:.1}",
            figure.instructions, figure.per, before.instructions
        );
        let remedy = "cargo xtask instructions --update WHY";
        if percent > TOLERANCE {
            let message = format!("{change}: make it cheaper, or say why it must be: {remedy}");
            report.fail(FIGURES, name, message);
        } else if percent < -TOLERANCE {
            report.warn(FIGURES, name, format!("{change}: keep the gain: {remedy}"));
        }
        if before.why.trim().is_empty() {
            report.fail(FIGURES, name, "its `why` is empty: give the reason for the figure");
        }
    }
    for name in listed.keys().filter(|name| !counted.contains_key(*name)) {
        report.fail(FIGURES, name, format!("is no scenario any more: remove it from {FIGURES}"));
    }
}

fn percent(before: &Figure, after: &Figure) -> f64 {
    (after.instructions / before.instructions - 1.0) * 100.0
}

fn table(listed: &Figures, counted: &Figures) -> String {
    let mut text = String::new();
    for (name, figure) in counted {
        let change = listed.get(name).map(|before| format!("{:+.2} %", percent(before, figure)));
        let change = change.unwrap_or_else(|| "new".to_owned());
        let Figure { instructions, per, .. } = figure;
        let _ = writeln!(text, "{name:<20} {instructions:>12.1} per {per:<8} {change:>10}");
    }
    text
}

/// The file's text. A figure that has hardly moved keeps its old reason.
fn written(listed: &Figures, counted: Figures, why: &str) -> String {
    let mut text = String::from(
        "# Instructions per unit of work, as callgrind counts them: `cargo xtask instructions --check`\n\
         # fails when one has risen by more than 3 %. What costs more on purpose is written anew with\n\
         # its reason: `cargo xtask instructions --update \"WHY\"`. The scenarios are in\n\
         # commands/bench/src/instructions.rs. x86-64 with AVX2, compiler of rust-toolchain.toml.\n",
    );
    for (name, figure) in counted {
        let kept = listed.get(&name).filter(|old| percent(old, &figure).abs() <= TOLERANCE);
        let why = kept.map_or(why, |old| old.why.as_str()).trim();
        let Figure { instructions, per, .. } = figure;
        let why = toml::Value::from(why);
        let _ = write!(text, "\n[{name}]\ninstructions = {instructions:.1}\n");
        let _ = write!(text, "per = \"{per}\"\nwhy = {why}\n");
    }
    text
}

/// Builds weever as it ships and counts its scenarios.
fn count_all(workspace: &Workspace) -> Result<Figures, Error> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run(Command::new(cargo).args(["build", "--release", "-p", "weever"]))?;
    let weever = workspace.target.join("release/weever");
    let names = run(Command::new(&weever).args(["bench", "instructions"]))?.stdout;
    let names: Vec<&str> = names.lines().collect();
    hide_vdso()?;
    // One scenario on each core: counting does not mind company. The last of the list take the longest, and go first.
    let left = Mutex::new(names);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let count_some = || {
        let counts = iter::from_fn(next).map(|name| Ok((name.to_owned(), count(&weever, name)?)));
        counts.collect::<Result<Vec<_>, Error>>()
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let started: Vec<_> = (0..cores).map(|_| scope.spawn(count_some)).collect();
        let joined = started.into_iter().map(|thread| thread.join().expect("it cannot panic"));
        Ok(joined.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    })
}

/// Valgrind takes the vDSO away, and does not know the call by which `rustix` asks the kernel for it: a stack that reads
/// the clock would crash. Without an answer, from here on and in all children, it looks elsewhere.
fn hide_vdso() -> Result<(), seccompiler::Error> {
    const PR_GET_AUXV: u64 = 0x4155_5856;
    let (len, is) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
    let rule = SeccompRule::new(vec![SeccompCondition::new(0, len, is, PR_GET_AUXV)?])?;
    let rules = [(libc::SYS_prctl, vec![rule])].into();
    let refused = SeccompAction::Errno(libc::EINVAL as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}

/// Runs one scenario under callgrind.
fn count(weever: &Path, name: &str) -> Result<Figure, Error> {
    let output = run(Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(weever)
        .args(["bench", "instructions", name]))?;
    let wrong = |message: String| Error::Parse { path: PathBuf::from(name), message };
    let words: Vec<&str> = output.stdout.split_whitespace().collect();
    let [units, per] = words[..] else {
        return Err(wrong(format!("`{}` is not an amount of work", output.stdout.trim())));
    };
    let units: f64 = units.parse().map_err(|_| wrong(format!("`{units}` is no number")))?;
    let collected = collected(&output.stderr).filter(|&instructions| instructions > 0);
    let instructions = collected
        .ok_or_else(|| wrong(format!("callgrind has not seen a function like {COUNTED}")))?;
    let instructions = instructions as f64 / units;
    Ok(Figure { instructions, per: per.to_owned(), why: String::new() })
}

/// The number behind `Collected :` in callgrind's last output.
fn collected(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

struct Output {
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Result<Output, Error> {
    let text = || {
        let words = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
        let program = command.get_program().to_string_lossy().into_owned();
        std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
    };
    let text = text();
    let output = command.output();
    let output = output.map_err(|source| Error::Start { command: text.clone(), source })?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(Error::Command { command: text, stderr });
    }
    Ok(Output { stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(list: &[(&str, f64)]) -> Figures {
        let figure =
            |instructions| Figure { instructions, per: "packet".into(), why: "once".into() };
        list.iter().map(|(name, count)| ((*name).to_owned(), figure(*count))).collect()
    }

    fn compared(listed: &[(&str, f64)], counted: &[(&str, f64)]) -> Findings {
        let mut report = Findings::new("instructions");
        compare(&figures(listed), &figures(counted), &mut report);
        report
    }

    #[test]
    fn up_to_three_percent_more_pass() {
        let report = compared(&[("echo", 1000.0)], &[("echo", 1029.0)]);
        assert_eq!((report.failures().len(), report.warnings().len()), (0, 0));
        let report = compared(&[("echo", 1000.0)], &[("echo", 1031.0)]);
        assert!(report.failures()[0].contains("+3.1 % against 1000.0"), "{report}");
    }

    #[test]
    fn a_gain_is_to_be_kept() {
        let report = compared(&[("echo", 1000.0)], &[("echo", 900.0)]);
        assert!(!report.failed() && report.warnings()[0].contains("keep the gain"), "{report}");
    }

    #[test]
    fn scenarios_and_figures_belong_together() {
        let report = compared(&[("old", 1.0)], &[("new", 1.0)]);
        let failures = report.failures().concat();
        assert!(failures.contains("new: is not listed"), "{failures}");
        assert!(failures.contains("old: is no scenario"), "{failures}");
    }

    #[test]
    fn what_is_written_can_be_read_and_keeps_reasons() {
        let listed = figures(&[("a", 100.0), ("b", 100.0)]);
        let text = written(&listed, figures(&[("a", 101.0), ("b", 110.0)]), "a \"new\" check");
        let read: Figures = toml::from_str(&text).unwrap();
        assert_eq!((read["a"].instructions, read["a"].why.as_str()), (101.0, "once"));
        assert_eq!(read["b"].why, "a \"new\" check");
    }

    #[test]
    fn callgrinds_count_is_found() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 123456\n"), Some(123_456));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn the_trees_figures_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let figures: Figures = load_toml(&root.join(FIGURES)).unwrap();
        assert!(figures.values().all(|figure| figure.instructions > 0.0));
    }
}
