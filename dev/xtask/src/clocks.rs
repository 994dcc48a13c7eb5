//! Rooms in which the time is an argument: a simulation has its own clock.

use crate::report::Report;
use crate::rules::Rules;
use crate::source::Source;

/// Finds calls that ask the machine for the time.
pub(crate) fn check(sources: &[Source], rules: &Rules, report: &mut Report) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;
    use crate::source::parse_all;

    #[test]
    fn only_the_listed_rooms_are_without_a_clock() {
        let ask = "fn f() { Instant::now(); }";
        let elsewhere = ["src/a.rs", "proto/tests/a.rs", "proto/examples/a.rs"];
        let mut files = elsewhere.map(|path| (path, ask)).to_vec();
        files.push(("proto/a.rs", ask));
        let tree = Tree::of(&files);
        let rules = Rules { clockless_rooms: vec!["proto".to_owned()], ..Rules::default() };
        let mut report = Report::default();
        check(&parse_all(&tree).unwrap(), &rules, &mut report);
        assert_eq!(
            report.failures(),
            ["clock proto/a.rs:1: `Instant::now`: take the time as an argument here"]
        );
    }
}
