//! A crate is named after its folder, so that either leads to the other.

use std::path::Path;

use crate::metadata::Workspace;
use crate::report::Report;

/// `weever-<folder>`, or `weever-<group>-<folder>` where the folder alone says too little.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for (name, member) in &workspace.members {
        if !is_named_after(name, &member.folder) {
            let place = member.folder.display().to_string();
            let message = format!("`{name}` is not named after its folder: `weever-<folder>`");
            report.fail("names", place, message);
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
}
