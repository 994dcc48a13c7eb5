//! Paths of somebody's own machine have no place in the project.

use crate::files::Tree;
use crate::report::Report;

/// Written in two halves, so that this file passes its own check.
const PRIVATE: [&str; 2] = [concat!("/wo", "rk/"), concat!("se", "eds/")];

/// Looks into every file for a path that nobody else has.
pub(crate) fn check(tree: &Tree, report: &mut Report) {
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

    #[test]
    fn private_paths_are_found_in_any_file() {
        let secret = format!("fine\nsee {}notes\n", PRIVATE[0]);
        let mut report = Report::default();
        check(&Tree::of(&[("a.toml", &secret), ("b.rs", "// work in progress")]), &mut report);
        let found = report.failures();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("private a.toml:2"), "{found:?}");
    }
}
