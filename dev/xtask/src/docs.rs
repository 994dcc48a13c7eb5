//! Links that lead somewhere, and a reason for every dependency.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::files::Tree;
use crate::metadata::Workspace;
use crate::report::Findings;

/// Where each dependency has its line.
const REASONS: &str = "docs/dependencies.md";

/// Relative links of every Markdown file must lead to a file or folder of the project.
pub(crate) fn check_links(tree: &Tree, report: &mut Findings) {
    for (path, text) in tree.with_extension("md") {
        for (line, target) in links(&text) {
            let folder = path.parent().unwrap_or(Path::new(""));
            let resolved = resolve(folder, &target);
            if !resolved.is_some_and(|found| tree.contains(&found)) {
                let place = format!("{}:{line}", path.display());
                report.fail("links", place, format!("`{target}` leads nowhere"));
            }
        }
    }
}

/// Each crate from elsewhere that a manifest names must have a line in the table of reasons, and
/// each line should still be of use.
pub(crate) fn check_dependency_reasons(workspace: &Workspace, tree: &Tree, report: &mut Findings) {
    let table = tree.files.get(Path::new(REASONS)).map(|text| String::from_utf8_lossy(text));
    let reasoned: BTreeSet<String> =
        table.iter().flat_map(|text| text.lines()).filter_map(reasoned_crate).collect();
    let mut declared = fuzz_dependencies(tree);
    for (name, member) in &workspace.members {
        for used in member.declared.difference(&reasoned) {
            report.fail("reasons", name, format!("uses {used}, which has no line in {REASONS}"));
        }
        declared.extend(member.declared.iter().cloned());
    }
    for stale in reasoned.difference(&declared) {
        report.warn("reasons", REASONS, format!("nobody uses {stale} any more"));
    }
}

/// The fuzz targets are a workspace of their own, which `cargo metadata` does not show.
fn fuzz_dependencies(tree: &Tree) -> BTreeSet<String> {
    let manifest = tree.files.get(Path::new("fuzz/Cargo.toml"));
    let text = manifest.map(|text| String::from_utf8_lossy(text)).unwrap_or_default();
    let parsed: toml::Table = toml::from_str(&text).unwrap_or_default();
    let dependencies = parsed.get("dependencies").and_then(toml::Value::as_table);
    dependencies.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

/// The crate of a table row like "| `libc` | … |", if the row also gives a reason.
fn reasoned_crate(row: &str) -> Option<String> {
    let mut cells = row.trim().strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let reason = cells.rfind(|cell| !cell.is_empty())?;
    (reason.split_whitespace().count() > 1).then(|| name.to_owned())
}

/// Line numbers and relative targets of `[text](target)`, `[name]: target`, `href` and `src`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced {
            let targets = inline_targets(line).into_iter().chain(definition_target(line));
            let relative = targets.filter_map(|target| relative_part(&target));
            found.extend(relative.map(|target| (number + 1, target)));
        }
    }
    found
}

/// Targets of Markdown's links, and of the HTML that pictures need.
fn inline_targets(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let opened = ["](", "href=\"", "src=\""];
    let starts = opened.iter().flat_map(|opening| prose.split(opening).skip(1));
    starts.filter_map(|rest| rest.split([')', ' ', '"']).next()).map(str::to_owned).collect()
}

fn definition_target(line: &str) -> Option<String> {
    let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
    let plain = !name.contains(']') && !target.trim().contains(' ');
    plain.then(|| target.trim().to_owned())
}

/// The path of a target without its fragment; nothing for other sites and for the page itself.
fn relative_part(target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or("");
    let elsewhere = path.contains("://") || path.starts_with("mailto:");
    (!path.is_empty() && !elsewhere).then(|| path.to_owned())
}

/// The place a target means, seen from a folder; nothing if it leaves the project.
fn resolve(folder: &Path, target: &str) -> Option<PathBuf> {
    let joined = match target.strip_prefix('/') {
        Some(from_root) => PathBuf::from(from_root),
        None => folder.join(target),
    };
    let mut resolved = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir if !resolved.pop() => return None,
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Member;

    fn link_failures(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/page.md", text), ("docs/other.md", ""), ("README.md", "")]);
        let mut report = Findings::default();
        check_links(&tree, &mut report);
        report.failures()
    }

    #[test]
    fn good_links_pass() {
        let text = "[a](other.md) [b](../README.md#part) [c](https://x.org/y) [d](#here) [e](../docs)\n\
                    [f]: other.md\n`[g](nowhere.md)`\n```\n[h](nowhere.md)\n```\n[i](/README.md)";
        assert_eq!(link_failures(text), [""; 0]);
    }

    #[test]
    fn dead_links_are_named_with_their_line() {
        let found =
            link_failures("fine\n[a](gone.md) and [b](../../out.md)\n\n[c]: missing/x.md\n");
        assert_eq!(
            found,
            [
                "links docs/page.md:2: `gone.md` leads nowhere",
                "links docs/page.md:2: `../../out.md` leads nowhere",
                "links docs/page.md:4: `missing/x.md` leads nowhere",
            ]
        );
    }

    #[test]
    fn pictures_must_be_there() {
        let html = r#"<a href="other.md"><img src="gone.svg" alt="x"></a>"#;
        assert_eq!(link_failures(html), ["links docs/page.md:1: `gone.svg` leads nowhere"]);
    }

    fn check_reasons(table: &str) -> Findings {
        let declared = BTreeSet::from(["libc".to_owned(), "syn".to_owned()]);
        let mut workspace = Workspace::default();
        workspace.members.insert("a".to_owned(), Member { declared, ..Member::default() });
        let fuzz = "[dependencies]\nlibfuzzer-sys = '1'";
        let mut report = Findings::default();
        let tree = Tree::of(&[(REASONS, table), ("fuzz/Cargo.toml", fuzz)]);
        check_dependency_reasons(&workspace, &tree, &mut report);
        report
    }

    const FULL: &str = "| crate | where | why |\n|---|---|---|\n| `libc` | a | system calls\n| `syn` | a | parses Rust |\n";

    #[test]
    fn every_dependency_needs_a_line_with_a_reason() {
        assert_eq!(check_reasons(FULL).failures(), [""; 0]);
        let found = check_reasons("| `libc` | a | system calls |\n| `syn` | a | |\n").failures();
        assert_eq!(found, ["reasons a: uses syn, which has no line in docs/dependencies.md"]);
    }

    #[test]
    fn a_line_that_has_outlived_its_dependency_is_pointed_out() {
        let more = format!(
            "{FULL}| `libfuzzer-sys` | fuzz | fuzzing engine |\n| `nom` | a | once parsed |\n"
        );
        let report = check_reasons(&more);
        assert!(!report.failed());
        let found = report.warnings();
        assert_eq!(found, ["reasons docs/dependencies.md: nobody uses nom any more"]);
    }
}
