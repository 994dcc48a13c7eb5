//! Who may know whom.

use std::collections::BTreeMap;

use crate::metadata::Workspace;
use crate::report::Report;
use crate::rules::{Rule, Rules};

const CHECK: &str = "dependencies";

/// Holds every crate of ours against the rules that name it.
pub(crate) fn check(workspace: &Workspace, rules: &Rules, report: &mut Report) {
    for name in workspace.members.keys() {
        let chains = workspace.chains(name);
        let mut ruled = false;
        for rule in rules.rules.iter().filter(|rule| applies(rule, rules, name)) {
            ruled = true;
            check_rule(workspace, rules, rule, &chains, report);
        }
        if !ruled {
            report.fail(CHECK, name, "is in no rule: say in dev/xtask/rules.toml what it may use");
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
    report: &mut Report,
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
        let mut report = Report::default();
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
}
