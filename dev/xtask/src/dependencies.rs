//! Which crate may use which.

use std::collections::BTreeMap;

use crate::metadata::Workspace;
use crate::report::Findings;
use crate::rules::{Rule, Rules};

const CHECK: &str = "dependencies";

/// Holds every crate of ours against the rules that name it.
pub(crate) fn check(workspace: &Workspace, rules: &Rules, report: &mut Findings) {
    for name in workspace.members.keys() {
        let chains = workspace.chains(name);
        let mut ruled = false;
        for rule in rules.rules.iter().filter(|rule| applies(rule, rules, name)) {
            ruled = true;
            check_rule(workspace, rules, rule, &chains, report);
        }
        if !ruled {
            report.fail(
                CHECK,
                name,
                "is in no rule: list its allowed dependencies in dev/xtask/rules.toml",
            );
        }
    }
    check_names(workspace, rules, report);
}

/// A rule about a crate of ours that is not there holds nobody to anything.
fn check_names(workspace: &Workspace, rules: &Rules, report: &mut Findings) {
    let ruled = rules
        .rules
        .iter()
        .flat_map(|rule| rule.crates.iter().chain(&rule.never).chain(rule.only.iter().flatten()));
    for name in ruled.chain(rules.groups.values().flatten()) {
        let missing = match name.strip_prefix('@') {
            Some(group) => !rules.groups.contains_key(group),
            None => name.starts_with("weever") && !workspace.members.contains_key(name),
        };
        if missing {
            report.fail(
                CHECK,
                name,
                "is named in dev/xtask/rules.toml but does not exist: remove it",
            );
        }
    }
    let rooms = [&rules.unsafe_rooms, &rules.clockless_rooms, &rules.test_rooms];
    for room in rooms.into_iter().flatten() {
        if !workspace.root.join(room).exists() {
            report.fail(
                CHECK,
                room,
                "is a room in dev/xtask/rules.toml but not a folder: remove it",
            );
        }
    }
}

fn applies(rule: &Rule, rules: &Rules, name: &str) -> bool {
    rules.expand(&rule.crates).contains(&name)
}

fn check_rule(
    workspace: &Workspace,
    rules: &Rules,
    rule: &Rule,
    chains: &BTreeMap<String, Vec<String>>,
    report: &mut Findings,
) {
    let only = rule.only.as_ref().map(|only| rules.expand(only));
    let never = rules.expand(&rule.never);
    for (used, chain) in chains {
        let ours = workspace.members.contains_key(used);
        let outside = only.as_ref().is_some_and(|only| ours && !only.contains(&used.as_str()));
        if outside || never.contains(&used.as_str()) {
            let message = format!("may not use {used} ({}): {}", chain.join(" -> "), rule.because);
            report.fail(CHECK, &chain[0], message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Member;

    fn workspace(edges: &[(&str, &[&str])]) -> Workspace {
        let mut workspace = Workspace::default();
        for (name, uses) in edges {
            let uses = uses.iter().map(|&used| used.to_owned()).collect();
            workspace.uses.insert((*name).to_owned(), uses);
            if !name.starts_with("ext") {
                workspace.members.insert((*name).to_owned(), Member::default());
            }
        }
        workspace
    }

    fn failures(rules: &str, edges: &[(&str, &[&str])]) -> Vec<String> {
        let mut report = Findings::default();
        check(&workspace(edges), &toml::from_str(rules).unwrap(), &mut report);
        report.failures()
    }

    const RULES: &str = "
        [groups]
        os = ['ext-os']
        [[rule]]
        crates = ['graph']
        only = []
        because = 'it stands alone'
        [[rule]]
        crates = ['lang']
        only = ['graph']
        never = ['@os']
        because = 'it describes graphs'
        [[rule]]
        crates = ['engine', 'tool']
        because = 'free'";

    #[test]
    fn what_the_rules_allow_passes() {
        let edges: &[(&str, &[&str])] = &[
            ("graph", &["ext-map"]),
            ("lang", &["graph", "ext-map"]),
            ("engine", &["graph", "ext-os"]),
        ];
        assert_eq!(failures(RULES, edges), [""; 0]);
    }

    #[test]
    fn a_crate_of_ours_that_is_not_listed_fails() {
        let edges: &[(&str, &[&str])] = &[("graph", &["engine"]), ("engine", &[])];
        let found = failures(RULES, edges);
        assert_eq!(
            found,
            ["dependencies graph: may not use engine (graph -> engine): it stands alone"]
        );
    }

    #[test]
    fn a_way_round_through_another_crate_fails_and_is_shown() {
        let edges: &[(&str, &[&str])] =
            &[("lang", &["ext-helper"]), ("ext-helper", &["ext-os"]), ("ext-os", &[])];
        let found = failures(RULES, edges);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("lang -> ext-helper -> ext-os"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_rule_fails() {
        let found = failures(RULES, &[("newcomer", &[])]);
        assert!(found[0].contains("newcomer: is in no rule"), "{found:?}");
    }

    #[test]
    fn a_rule_about_a_crate_that_is_not_there_fails() {
        let rules = "test_rooms = ['no/such/room']
            [groups]
            web = ['weever-web']
            [[rule]]
            crates = ['weever-old', 'a']
            never = ['@webb', 'ext']
            because = 'once'";
        let found = failures(rules, &[("a", &[])]);
        let named: Vec<_> = found.iter().filter_map(|f| f.split(':').next()).collect();
        let expected = ["weever-old", "@webb", "weever-web", "no/such/room"];
        assert_eq!(named, expected.map(|name| format!("dependencies {name}")));
    }
}
