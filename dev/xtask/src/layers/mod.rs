//! Layers inside crates: no circle of files.
//!
//! File A is above file B if A names an item that B defines. Where two files are above each other,
//! neither can be read, tested or changed alone. A parent that only declares and re-exports its
//! children is not above them, and tests do not count.

mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::metadata::Workspace;
use crate::report::Findings;
use crate::rules::Exceptions;
use crate::source::Source;
use modules::Modules;

const CHECK: &str = "circle";

type Edges<'a> = BTreeMap<(&'a Path, &'a Path), Vec<&'a str>>;

/// Finds circles that no exception lists, and exceptions that are no longer needed.
pub(crate) fn check(
    workspace: &Workspace,
    sources: &[Source],
    exceptions: &Exceptions,
    report: &mut Findings,
) {
    let sources: BTreeMap<&Path, &Source> =
        sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let mut in_circles: BTreeSet<PathBuf> = BTreeSet::new();
    for root in workspace.members.values().flat_map(|member| &member.roots) {
        let edges = Modules::of(root, &sources).edges();
        for circle in circles(&edges) {
            let listed = exceptions.circles.iter().any(|exception| {
                circle.iter().all(|&file| exception.files.iter().any(|f| f == file))
            });
            if !listed {
                report.fail(CHECK, circle[0].display().to_string(), describe(&circle, &edges));
            }
            in_circles.extend(circle.into_iter().map(Path::to_owned));
        }
    }
    check_exceptions(exceptions, &in_circles, report);
}

/// Each set of files that reach each other, in the order of their paths.
fn circles<'a>(edges: &Edges<'a>) -> Vec<Vec<&'a Path>> {
    let mut below: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for &(upper, lower) in edges.keys() {
        below.entry(upper).or_default().insert(lower);
    }
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        below.keys().map(|&file| (file, reach(file, &below))).collect();
    let mut found = BTreeSet::new();
    for (&file, files) in &reached {
        if files.contains(file) {
            let back = |other: &&Path| reached.get(other).is_some_and(|back| back.contains(file));
            found.insert(files.iter().copied().filter(back).collect::<Vec<_>>());
        }
    }
    found.into_iter().collect()
}

/// All files below one, which is among them if it is in a circle.
fn reach<'a>(from: &Path, below: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Path> = below.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(below.get(file).into_iter().flatten());
        }
    }
    reached
}

/// The edges of a circle, with the names that make them.
fn describe(circle: &[&Path], edges: &Edges) -> String {
    let mut text = format!("{} files name each other in a circle", circle.len());
    for ((upper, lower), names) in edges {
        if circle.contains(upper) && circle.contains(lower) {
            text +=
                &format!("\n    {} -> {}: {}", upper.display(), lower.display(), names.join(", "));
        }
    }
    text + "\n    move the shared items into a file below them"
}

/// The list of circles may only get shorter.
fn check_exceptions(
    exceptions: &Exceptions,
    in_circles: &BTreeSet<PathBuf>,
    report: &mut Findings,
) {
    for exception in &exceptions.circles {
        for file in exception.files.iter().filter(|file| !in_circles.contains(*file)) {
            let message = "is in no circle any more: remove it from exceptions.toml";
            report.fail(CHECK, file.display().to_string(), message);
        }
        if exception.reason.trim().is_empty() {
            report.fail(CHECK, format!("{:?}", exception.files), "its exception gives no reason");
        }
    }
}

#[cfg(test)]
mod tests;
