//! A crate is named after its folder, and a module is one file or one folder, so that either leads
//! to the other.

use std::path::Path;

use crate::files::Tree;
use crate::metadata::Workspace;
use crate::report::Findings;

/// `weever-<folder>`, or `weever-<group>-<folder>` where the folder alone says too little.
pub(crate) fn check(workspace: &Workspace, report: &mut Findings) {
    for (name, member) in &workspace.members {
        if !is_named_after(name, &member.folder) {
            let place = member.folder.display().to_string();
            let message = format!("`{name}` is not named after its folder: `weever-<folder>`");
            report.fail("names", place, message);
        }
    }
}

/// A module with files of its own is the folder `x` with `x/mod.rs`; `x.rs` beside it would make
/// two places of one module.
///
/// Files in `tests` are left alone: there `x.rs` is a crate, and `x/` holds its modules.
pub(crate) fn check_modules(tree: &Tree, report: &mut Findings) {
    for (path, _) in tree.with_extension("rs") {
        let folder = path.with_extension("");
        let is_test = path.parent().is_some_and(|parent| parent.ends_with("tests"));
        if !is_test && tree.contains(&folder) {
            let message =
                format!("stands beside its folder: move it to {}", folder.join("mod.rs").display());
            report.fail("names", path.display().to_string(), message);
        }
    }
}

fn is_named_after(name: &str, folder: &Path) -> bool {
    let mut parts = folder.iter().rev().filter_map(|part| part.to_str());
    let Some(last) = parts.next() else { return name == "weever" };
    let grouped = parts.next().map(|group| format!("weever-{group}-{last}"));
    name == format!("weever-{last}") || Some(name) == grouped.as_deref() || name == "xtask"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_folders_agree() {
        for (name, folder, agrees) in [
            ("weever", "", true),
            ("weever-graph", "lang/graph", true),
            ("weever-blocks-std", "blocks/std", true),
            ("weever-models", "models", true),
            ("weever-packet", "data/buffers", false),
            ("packet", "data/packet", false),
            ("weever-link", "data/link-sys", false),
        ] {
            assert_eq!(is_named_after(name, Path::new(folder)), agrees, "{name} in {folder}");
        }
    }

    #[test]
    fn a_module_has_one_place() {
        let files =
            ["a/src/x.rs", "a/src/x/y.rs", "a/src/z/mod.rs", "a/tests/t.rs", "a/tests/t/u.rs"];
        let mut report = Findings::default();
        check_modules(&Tree::of(&files.map(|path| (path, ""))), &mut report);
        let expected = "names a/src/x.rs: stands beside its folder: move it to a/src/x/mod.rs";
        assert_eq!(report.failures(), [expected]);
    }
}
