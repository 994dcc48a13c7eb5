//! Words that may be written in some rooms only: `unsafe`, a question to a clock, a path of somebody's own
//! machine. That each `unsafe` block has a `// SAFETY:` comment, clippy sees to.

use std::path::Path;

use crate::files::Tree;
use crate::metadata::Workspace;
use crate::report::Findings;
use crate::rules::Rules;
use crate::source::Source;

/// The word itself outside the listed rooms, and crates that do not forbid it.
pub(crate) fn check_unsafe(
    workspace: &Workspace,
    sources: &[Source],
    rules: &Rules,
    report: &mut Findings,
) {
    for source in sources.iter().filter(|source| !allowed(rules, &source.path)) {
        for line in &source.unsafe_lines {
            let place = format!("{}:{line}", source.path.display());
            report.fail(
                "unsafe",
                place,
                "`unsafe` belongs into the rooms listed in rules.toml only",
            );
        }
    }
    let roots = workspace.members.values().flat_map(|member| &member.roots);
    for root in roots.filter(|root| !allowed(rules, root)) {
        let source = sources.iter().find(|source| source.path == **root);
        if !source.is_some_and(|source| source.forbids_unsafe) {
            report.fail("unsafe", root.display().to_string(), "lacks `#![forbid(unsafe_code)]`");
        }
    }
}

fn allowed(rules: &Rules, path: &Path) -> bool {
    rules.unsafe_rooms.iter().any(|room| path.starts_with(room))
}

/// Finds calls that ask the machine for the time.
pub(crate) fn check_clocks(sources: &[Source], rules: &Rules, report: &mut Findings) {
    // An example may measure the library.
    let example = |source: &Source| source.path.components().any(|c| c.as_os_str() == "examples");
    let clockless = |source: &&Source| {
        let listed = rules.clockless_rooms.iter().any(|room| source.path.starts_with(room));
        listed && !source.is_test && !example(source)
    };
    for source in sources.iter().filter(clockless) {
        for (line, call) in &source.clock_lines {
            let place = format!("{}:{line}", source.path.display());
            report.fail("clock", place, format!("`{call}`: take the time as an argument here"));
        }
    }
}

/// Written in two halves, so that this file passes its own check.
const PRIVATE: [&str; 2] = [concat!("/wo", "rk/"), concat!("se", "eds/")];

/// Looks into every file for a path that nobody else has.
pub(crate) fn check_private_paths(tree: &Tree, report: &mut Findings) {
    for (path, content) in &tree.files {
        let text = String::from_utf8_lossy(content);
        for (number, line) in text.lines().enumerate() {
            for word in PRIVATE.iter().filter(|word| line.contains(*word)) {
                let place = format!("{}:{}", path.display(), number + 1);
                report.fail("private", place, format!("`{word}` is a path of one machine only"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;
    use crate::metadata::Member;
    use crate::source::parse_all;

    fn unsafe_failures(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let rules = Rules { unsafe_rooms: vec!["data/ring".to_owned()], ..Rules::default() };
        let roots = roots.iter().map(Into::into).collect();
        let mut workspace = Workspace::default();
        workspace.members.insert("a".to_owned(), Member { roots, ..Member::default() });
        let mut report = Findings::default();
        let sources = parse_all(&Tree::of(files)).unwrap();
        check_unsafe(&workspace, &sources, &rules, &mut report);
        report.failures()
    }

    #[test]
    fn the_listed_rooms_may() {
        let files = [("data/ring/src/lib.rs", "fn f() { unsafe { g() } }")];
        assert_eq!(unsafe_failures(&files, &["data/ring/src/lib.rs"]), [""; 0]);
    }

    #[test]
    fn others_may_not_even_in_tests() {
        let files = [
            ("data/ringer/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("data/ringer/tests/t.rs", "\nfn f() { unsafe { g() } }"),
        ];
        let found = unsafe_failures(&files, &["data/ringer/src/lib.rs"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("unsafe data/ringer/tests/t.rs:2"), "{found:?}");
    }

    #[test]
    fn every_library_and_binary_forbids_it() {
        let files =
            [("a/src/lib.rs", "#![forbid(unsafe_code)]"), ("a/src/main.rs", "fn main() {}")];
        let found = unsafe_failures(&files, &["a/src/lib.rs", "a/src/main.rs"]);
        assert_eq!(found, ["unsafe a/src/main.rs: lacks `#![forbid(unsafe_code)]`"]);
    }

    #[test]
    fn only_the_listed_rooms_are_without_a_clock() {
        let ask = "fn f() { Instant::now(); }";
        let elsewhere = ["src/a.rs", "proto/tests/a.rs", "proto/examples/a.rs"];
        let mut files = elsewhere.map(|path| (path, ask)).to_vec();
        files.push(("proto/a.rs", ask));
        let tree = Tree::of(&files);
        let rules = Rules { clockless_rooms: vec!["proto".to_owned()], ..Rules::default() };
        let mut report = Findings::default();
        check_clocks(&parse_all(&tree).unwrap(), &rules, &mut report);
        assert_eq!(
            report.failures(),
            ["clock proto/a.rs:1: `Instant::now`: take the time as an argument here"]
        );
    }

    #[test]
    fn private_paths_are_found_in_any_file() {
        let secret = format!("fine\nsee {}notes\n", PRIVATE[0]);
        let mut report = Findings::default();
        check_private_paths(
            &Tree::of(&[("a.toml", &secret), ("b.rs", "// work in progress")]),
            &mut report,
        );
        let found = report.failures();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("private a.toml:2"), "{found:?}");
    }
}
