//! How long files and functions may be, and how short files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::report::Findings;
use crate::rules::{Exceptions, FileException, FunctionException, SmallException};
use crate::source::{Function, Source};

const CHECK: &str = "size";

/// Above the first a warning, above the second a failure.
struct Limits {
    warning: usize,
    failure: usize,
}

const FILE: Limits = Limits { warning: 400, failure: 800 };
/// A production file with fewer lines, comments and tests included, is a part of its user's thought.
const SMALLEST: usize = 40;
/// Fewer lines than this are counted by `cargo xtask lines`.
const SMALL: usize = 60;
const FUNCTION: Limits = Limits { warning: 50, failure: 100 };

/// Measures lines of code: blank lines, comments, documentation and tests are free.
pub(crate) fn check(sources: &[Source], exceptions: &Exceptions, report: &mut Findings) {
    for source in sources.iter().filter(|source| !source.is_test) {
        let place = source.path.display().to_string();
        let excused = file_exception(exceptions, source).map(|e| e.lines);
        judge(&place, "the file", source.code_lines.len(), &FILE, excused, report);
        for function in &source.functions {
            let excused = function_exception(exceptions, source, function).map(|e| e.lines);
            let place = format!("{place}:{}", function.line);
            let what = format!("function `{}`", function.name);
            judge(&place, &what, function.code_lines, &FUNCTION, excused, report);
        }
    }
    check_exceptions(sources, exceptions, report);
}

/// A file joins its only user before it is this short: its reader would have to look up a sentence.
pub(crate) fn check_small(sources: &[Source], exceptions: &Exceptions, report: &mut Findings) {
    let small = |source: &&Source| source.lines < SMALLEST && !declares_modules(&source.path);
    let small: Vec<&Source> = production(sources).filter(small).collect();
    for source in &small {
        if !exceptions.small.iter().any(|exception| exception.path == source.path) {
            let message = format!(
                "the file has {} lines, under {SMALLEST}: join it to its only user, or to the file \
                 with which it forms one thought",
                source.lines
            );
            report.fail(CHECK, source.path.display().to_string(), message);
        }
    }
    for SmallException { path, reason } in &exceptions.small {
        let needed = small.iter().any(|source| source.path == *path);
        check_exception(&path.display().to_string(), reason, needed, report);
    }
}

/// The files that ship: neither tests nor examples nor fuzz targets.
fn production(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let ships = |source: &&Source| {
        let other = |folder| folder == "examples" || folder == "fuzz";
        !source.is_test && !source.path.iter().any(other)
    };
    sources.iter().filter(ships)
}

/// A file whose name is given: it may hold nothing but declarations.
fn declares_modules(path: &Path) -> bool {
    let names = ["mod.rs", "lib.rs", "main.rs", "build.rs"];
    path.file_name().is_some_and(|file| names.iter().any(|name| file == *name))
}

/// Lines of code by room, a line each, with their sum, and how long the files are: those that ship.
pub(crate) fn table(sources: &[Source]) -> String {
    let mut rooms: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lengths = Vec::new();
    for source in production(sources) {
        let mut folders = source.path.iter().filter_map(|folder| folder.to_str());
        *rooms.entry(folders.next().unwrap_or_default()).or_default() += source.code_lines.len();
        lengths.push(source.lines);
    }
    lengths.sort_unstable();
    let sum: usize = rooms.values().sum();
    let line = |(room, lines): (&str, usize)| format!("{room:<12}{lines:>8}\n");
    let rooms: String = rooms.into_iter().chain([("all", sum)]).map(line).collect();
    let small = lengths.iter().filter(|length| **length < SMALL).count();
    let median = lengths.get(lengths.len() / 2).unwrap_or(&0);
    format!("{rooms}{} files, median {median} lines, {small} under {SMALL}\n", lengths.len())
}

fn judge(
    place: &str,
    what: &str,
    lines: usize,
    limits: &Limits,
    excused: Option<usize>,
    report: &mut Findings,
) {
    let Limits { warning, failure } = *limits;
    let limit = excused.unwrap_or(failure);
    if lines > limit {
        report.fail(
            CHECK,
            place,
            format!("{what} has {lines} lines of code, over {limit}: split it"),
        );
    } else if excused.is_none() && lines > warning {
        let message = format!("{what} has {lines} lines of code, over {warning} (limit {limit})");
        report.warn(CHECK, place, message);
    }
}

fn file_exception<'a>(exceptions: &'a Exceptions, source: &Source) -> Option<&'a FileException> {
    exceptions.files.iter().find(|exception| exception.path == source.path)
}

fn function_exception<'a>(
    exceptions: &'a Exceptions,
    source: &Source,
    function: &Function,
) -> Option<&'a FunctionException> {
    exceptions.functions.iter().find(|e| e.path == source.path && e.name == function.name)
}

/// An exception must have a reason, and something to excuse.
fn check_exceptions(sources: &[Source], exceptions: &Exceptions, report: &mut Findings) {
    for exception in &exceptions.files {
        let long = |source: &&Source| source.code_lines.len() > FILE.failure;
        let needed = sources.iter().filter(long).any(|s| s.path == exception.path);
        check_exception(&exception.path.display().to_string(), &exception.reason, needed, report);
    }
    for exception in &exceptions.functions {
        let long = |function: &Function| {
            function.name == exception.name && function.code_lines > FUNCTION.failure
        };
        let source = sources.iter().find(|source| source.path == exception.path);
        let needed = source.is_some_and(|source| source.functions.iter().any(long));
        let place = format!("{}, `{}`", exception.path.display(), exception.name);
        check_exception(&place, &exception.reason, needed, report);
    }
}

fn check_exception(place: &str, reason: &str, needed: bool, report: &mut Findings) {
    if reason.trim().is_empty() {
        report.fail(CHECK, place, "its exception gives no reason");
    }
    if !needed {
        report.fail(CHECK, place, "its exception is not needed: remove it from exceptions.toml");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;
    use crate::source::parse_all;

    fn check_text(path: &str, text: &str, exceptions: &str) -> Findings {
        let mut report = Findings::default();
        let sources = parse_all(&Tree::of(&[(path, text)])).unwrap();
        check(&sources, &toml::from_str(exceptions).unwrap(), &mut report);
        report
    }

    fn constants(count: usize) -> String {
        (0..count).map(|n| format!("const C{n}: u8 = 0;\n")).collect()
    }

    /// A function of that many lines in all.
    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn files_warn_above_400_and_fail_above_800() {
        for (lines, warnings, failures) in [(400, 0, 0), (401, 1, 0), (800, 1, 0), (801, 0, 1)] {
            let report = check_text("a.rs", &constants(lines), "");
            let found = (report.warnings().len(), report.failures().len());
            assert_eq!(found, (warnings, failures), "{lines}");
        }
    }

    #[test]
    fn functions_warn_above_50_and_fail_above_100() {
        for (lines, warnings, failures) in [(50, 0, 0), (51, 1, 0), (100, 1, 0), (101, 0, 1)] {
            let report = check_text("a.rs", &function(lines), "");
            let found = (report.warnings().len(), report.failures().len());
            assert_eq!(found, (warnings, failures), "{lines}");
        }
    }

    #[test]
    fn rooms_and_files_are_counted_without_tests_and_examples() {
        let source = |path: &str, is_test| {
            let mut source = Source::default();
            (source.path, source.is_test) = (path.into(), is_test);
            source.code_lines = (0..7).collect();
            source.lines = if path.starts_with("host") { 120 } else { 50 };
            source
        };
        let sources = [
            source("data/ring/src/lib.rs", false),
            source("data/ring/tests/stress.rs", true),
            source("host/src/lib.rs", false),
            source("host/examples/embed.rs", false),
            source("fuzz/fuzz_targets/x.rs", false),
        ];
        let expected = "data               7\nhost               7\nall               14\n\
                        2 files, median 120 lines, 1 under 60\n";
        assert_eq!(table(&sources), expected);
    }

    #[test]
    fn tests_may_be_long() {
        let long = format!("#[cfg(test)]\nmod tests {{\n{}{}}}", constants(900), function(200));
        assert_eq!(check_text("a.rs", &long, "").failures(), [""; 0]);
        assert_eq!(check_text("x/tests/a.rs", &constants(900), "").failures(), [""; 0]);
    }

    #[test]
    fn an_exception_excuses_up_to_its_own_limit() {
        let exception = |lines: usize| {
            format!("[[function]]\npath='a.rs'\nname='long'\nlines={lines}\nreason='a table'")
        };
        assert_eq!(check_text("a.rs", &function(120), &exception(120)).failures(), [""; 0]);
        let found = check_text("a.rs", &function(121), &exception(120)).failures();
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_short_file_joins_its_user() {
        let check = |path: &str, lines: usize, exceptions: &str| {
            let mut report = Findings::default();
            let sources = parse_all(&Tree::of(&[(path, &constants(lines))])).unwrap();
            check_small(&sources, &toml::from_str(exceptions).unwrap(), &mut report);
            report.failures()
        };
        assert!(check("a/src/x.rs", 39, "")[0].contains("39 lines, under 40: join it"));
        assert_eq!(check("a/src/x.rs", 40, ""), [""; 0]);
        for path in ["a/src/x/mod.rs", "a/src/lib.rs", "a/tests/t.rs", "examples/a/src/bin/b.rs"] {
            assert_eq!(check(path, 5, ""), [""; 0], "{path}");
        }
        let excused = "[[small]]\npath='a/src/x.rs'\nreason='loom replaces it'";
        assert_eq!(check("a/src/x.rs", 39, excused), [""; 0]);
        assert!(check("a/src/x.rs", 41, excused)[0].contains("not needed"));
    }

    #[test]
    fn an_exception_must_be_needed_and_reasoned() {
        let idle = "[[file]]\npath='a.rs'\nlines=900\nreason='was long once'";
        let found = check_text("a.rs", &constants(10), idle).failures();
        assert!(found[0].contains("not needed"), "{found:?}");
        let mute = "[[file]]\npath='a.rs'\nlines=900\nreason=' '";
        let found = check_text("a.rs", &constants(850), mute).failures();
        assert!(found[0].contains("no reason"), "{found:?}");
    }
}
