//! Where `unsafe` may be written. That each block has a `// SAFETY:` comment, clippy sees to.

use std::path::Path;

use crate::metadata::Workspace;
use crate::report::Report;
use crate::rules::Rules;
use crate::source::Source;

const CHECK: &str = "unsafe";

/// The word itself outside the listed rooms, and crates that do not forbid it.
pub(crate) fn check(workspace: &Workspace, sources: &[Source], rules: &Rules, report: &mut Report) {
    for source in sources.iter().filter(|source| !allowed(rules, &source.path)) {
        for line in &source.unsafe_lines {
            let place = format!("{}:{line}", source.path.display());
            report.fail(CHECK, place, "`unsafe` belongs into the rooms listed in rules.toml only");
        }
    }
    let roots = workspace.members.values().flat_map(|member| &member.roots);
    for root in roots.filter(|root| !allowed(rules, root)) {
        let source = sources.iter().find(|source| source.path == **root);
        if !source.is_some_and(|source| source.forbids_unsafe) {
            report.fail(CHECK, root.display().to_string(), "lacks `#![forbid(unsafe_code)]`");
        }
    }
}

fn allowed(rules: &Rules, path: &Path) -> bool {
    rules.unsafe_rooms.iter().any(|room| path.starts_with(room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;
    use crate::metadata::Member;
    use crate::source::parse_all;

    fn failures(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let rules = Rules { unsafe_rooms: vec!["data/ring".to_owned()], ..Rules::default() };
        let roots = roots.iter().map(Into::into).collect();
        let mut workspace = Workspace::default();
        workspace.members.insert("a".to_owned(), Member { roots, ..Member::default() });
        let mut report = Report::default();
        let sources = parse_all(&Tree::of(files)).unwrap();
        check(&workspace, &sources, &rules, &mut report);
        report.failures()
    }

    #[test]
    fn the_listed_rooms_may() {
        let files = [("data/ring/src/lib.rs", "fn f() { unsafe { g() } }")];
        assert_eq!(failures(&files, &["data/ring/src/lib.rs"]), [""; 0]);
    }

    #[test]
    fn others_may_not_even_in_tests() {
        let files = [
            ("data/ringer/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("data/ringer/tests/t.rs", "\nfn f() { unsafe { g() } }"),
        ];
        let found = failures(&files, &["data/ringer/src/lib.rs"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("unsafe data/ringer/tests/t.rs:2"), "{found:?}");
    }

    #[test]
    fn every_library_and_binary_forbids_it() {
        let files =
            [("a/src/lib.rs", "#![forbid(unsafe_code)]"), ("a/src/main.rs", "fn main() {}")];
        let found = failures(&files, &["a/src/lib.rs", "a/src/main.rs"]);
        assert_eq!(found, ["unsafe a/src/main.rs: lacks `#![forbid(unsafe_code)]`"]);
    }
}
