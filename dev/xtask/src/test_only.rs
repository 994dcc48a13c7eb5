//! Nothing is `pub` for the tests alone: such an item is either dead, or tests reach inside.
//!
//! Names are compared as words, regardless of their paths: an item counts as used if any code of
//! the project outside tests mentions its name. That overlooks some, and accuses nobody wrongly.

use std::collections::BTreeSet;

use crate::report::Findings;
use crate::rules::Rules;
use crate::rules::{Exceptions, TestOnlyException};
use crate::source::Source;

const CHECK: &str = "test-only";

/// Finds `pub` items that tests mention and nothing else does, outside the rooms that exist for
/// tests, and exceptions that are no longer needed.
pub(crate) fn check(
    sources: &[Source],
    rules: &Rules,
    exceptions: &Exceptions,
    report: &mut Findings,
) {
    let for_tests = |source: &&Source| {
        source.is_test || rules.test_rooms.iter().any(|room| source.path.starts_with(room))
    };
    let (tests, code): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(for_tests);
    let used: BTreeSet<&str> = names(code.iter().map(|source| &source.mentions));
    let tested: BTreeSet<&str> = names(
        (code.iter().map(|source| &source.test_mentions))
            .chain(tests.iter().flat_map(|source| [&source.mentions, &source.test_mentions])),
    );
    let mut excused = vec![false; exceptions.test_only.len()];
    for source in &code {
        for (name, line) in &source.public {
            if used.contains(name.as_str()) || !tested.contains(name.as_str()) {
                continue;
            }
            let covers = |listed: &TestOnlyException| match &listed.name {
                Some(item) => listed.path == source.path && item == name,
                None => source.path.starts_with(&listed.path),
            };
            match exceptions.test_only.iter().position(covers) {
                Some(index) => excused[index] = true,
                None => {
                    let place = format!("{}:{line}", source.path.display());
                    let message =
                        format!("`pub` item `{name}` is used by tests only: use or remove it");
                    report.fail(CHECK, place, message);
                }
            }
        }
    }
    for (exception, needed) in exceptions.test_only.iter().zip(excused) {
        let name = exception.name.as_deref().unwrap_or("*");
        let place = format!("{}, `{name}`", exception.path.display());
        if !needed {
            let message = "its exception is not needed: remove it from exceptions.toml";
            report.fail(CHECK, place, message);
        } else if exception.reason.trim().is_empty() {
            report.fail(CHECK, place, "its exception gives no reason");
        }
    }
}

fn names<'a>(sets: impl Iterator<Item = &'a BTreeSet<String>>) -> BTreeSet<&'a str> {
    sets.flatten().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;
    use crate::source::parse_all;

    fn failures(files: &[(&str, &str)], exceptions: &str) -> Vec<String> {
        let rules = Rules { test_rooms: vec!["dev/testbed".to_owned()], ..Rules::default() };
        let mut report = Findings::default();
        let sources = parse_all(&Tree::of(files)).unwrap();
        check(&sources, &rules, &toml::from_str(exceptions).unwrap(), &mut report);
        report.failures()
    }

    const LIBRARY: &str = "pub fn used() {} pub fn probe() {} pub fn unheard_of() {}
        impl A { pub fn inner(&self) {} }
        #[cfg(test)] mod tests { fn t() { super::probe(); used(); } }";

    #[test]
    fn what_code_mentions_or_nobody_does_passes() {
        let files = [
            ("a/src/lib.rs", LIBRARY),
            ("b/src/lib.rs", "fn f(a: A) { a::used(); a.inner(); m!(probe); }"),
        ];
        assert_eq!(failures(&files, ""), [""; 0]);
    }

    #[test]
    fn what_only_tests_mention_is_named() {
        let files = [
            ("a/src/lib.rs", LIBRARY),
            ("b/src/lib.rs", "pub use a::probe;\nfn f() { used(); }"),
            ("b/tests/t.rs", "fn t(a: A) { a.inner(); }"),
            ("dev/testbed/src/lib.rs", "pub fn fixture() { probe(); }"),
            ("c/tests/t.rs", "fn t() { fixture(); }"),
        ];
        let found = failures(&files, "");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("test-only a/src/lib.rs:1: `pub` item `probe`"), "{found:?}");
        assert!(found[1].starts_with("test-only a/src/lib.rs:2: `pub` item `inner`"), "{found:?}");
    }

    #[test]
    fn an_exception_must_be_needed_and_reasoned() {
        let files =
            [("a/src/lib.rs", LIBRARY), ("b/src/lib.rs", "fn f(a: A) { used(); a.inner() }")];
        let exception = |name, reason| {
            format!("[[test_only]]\npath='a/src/lib.rs'\nname='{name}'\nreason='{reason}'")
        };
        assert_eq!(failures(&files, &exception("probe", "embedders want it")), [""; 0]);
        let folder = "[[test_only]]\npath='a/src'\nreason='is being built'";
        assert_eq!(failures(&files, folder), [""; 0]);
        assert!(failures(&files, &exception("probe", " "))[0].contains("no reason"));
        let found = failures(&files, &exception("used", "once")).concat();
        assert!(found.contains("not needed") && found.contains("`probe`"), "{found}");
    }
}
