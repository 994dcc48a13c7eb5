use proptest::prelude::*;

use super::*;

fn refused(text: &str) -> Vec<String> {
    let problems = parse(text).unwrap_err();
    problems.to_string().lines().map(String::from).collect()
}

const GOOD: &str = r#"
objective = "balance-rate"

[[class]]
name = "premium"
match = "udp dst port 11211 and src net 10.0.1.0/24"
queues = { exclusive = 4 }
priority = 1
mode = "busy"
objective = "balance"

[[class]]
name = "rest"
match = "udp dst port 11211"
weight = 2
objective = { pack = 8 }

[[dedicate]]
app = "trading"
queue = 7
"#;

#[test]
fn a_page_is_read() {
    let page = parse(GOOD).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(page.document.classes.len(), 2);
    assert_eq!(page.document.classes[0].queues, weever_plan::policy::Queues::Exclusive(4));
    assert_eq!(
        (page.apps.as_slice(), page.document.dedicate[0].queue),
        (&["trading".into()][..], 7)
    );
    assert!(page.doubts.is_empty(), "an exception in a wider class is no doubt");
    assert!(parse("").unwrap().document.classes.is_empty());
}

/// The page that explains policies has to be one.
#[test]
fn the_example_in_the_documentation_is_a_policy() {
    let page = include_str!("../../../../docs/policies.md");
    let example = page.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    let page = parse(example).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(page.document.classes[0].queues, weever_plan::policy::Queues::Exclusive(4));
    assert!(page.document.classes.iter().any(|c| c.drop));
    assert_eq!((page.apps.as_slice(), page.document.dedicate[0].queue), (&["kv".into()][..], 5));
    assert!(page.document.locality.is_some() && page.document.paths.is_some());
    assert!(crate::assign(Vec::new(), &page).is_ok());
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    let said = refused(
        "[[class]]\nname = \"a\"\nmatch = \"udp dst prot 53\"\nweight = 0\n\n\
         [[class]]\nname = \"a\"\nmatch = \"udp dst port 53 and tcp\"\nqueues = { exclusive = 0 }\n\n\
         [[class]]\nname = \"default\"\nmatch = \"udp\"\nqueues = { only = [3] }\n\n\
         [[dedicate]]\napp = \"x\"\nqueue = 3\n",
    );
    for (line, part) in [
        ("line 1", "the weight of class `a`"),
        ("line 1", "filter of class `a`: "),
        ("line 6", "no queue at all"),
        ("line 6", "no packet matches"),
        ("line 6", "two classes are called `a`, the first in line 1"),
        ("line 11", "no class can be called `default`"),
        ("line 16", "queue 3 is promised to class `default` and to application `x`"),
    ] {
        let found = said.iter().any(|s| s.starts_with(line) && s.contains(part));
        assert!(found, "{line} {part}: {said:#?}");
    }
    assert_eq!(said.len(), 7, "{said:#?}");
}

#[test]
fn contradictory_classes_are_found() {
    let two = |a: &str, b: &str, more: &str| {
        format!(
            "[[class]]\nname = \"a\"\nmatch = \"{a}\"\nqueues = {{ exclusive = 1 }}\n\
             [[class]]\nname = \"b\"\nmatch = \"{b}\"\nqueues = {{ exclusive = 1 }}\n{more}"
        )
    };
    let (port, net) = ("udp dst port 53", "udp and src net 10.0.0.0/8");
    let said = refused(&two(port, net, ""));
    assert!(said[0].contains("to class `a` and to class `b`, and both want"), "{said:?}");
    let page = parse(&two(port, net, "priority = 1\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(page.doubts.count(), 1);
    let said = refused(&two("udp", port, ""));
    assert!(said[0].contains("`b` never gets a flow: `a` comes before it"), "{said:?}");
    assert!(parse(&two("udp", port, "priority = 1\n")).is_ok());
    assert!(parse(&two("udp", "tcp", "")).is_ok());
}

#[test]
fn a_flow_may_lose_what_a_dropped_class_before_its_own_has_of_it_and_nothing_else() {
    let page = parse(
        "[[class]]\nname = \"first\"\nmatch = \"udp src port 19\"\ndrop = true\npriority = 3\n\
         [[class]]\nname = \"own\"\nmatch = \"udp and src net 10.0.0.0/8\"\npriority = 2\n\
         [[class]]\nname = \"last\"\nmatch = \"udp dst port 99\"\ndrop = true\npriority = 1\n",
    );
    let page = page.unwrap_or_else(|e| panic!("{e}"));
    let flows = "udp and src net 10.1.0.0/16\nudp src port 7 and src net 10.0.0.0/8\n\
                 tcp dst port 99\nudp dst port 7\nudp src port 7\ntcp class=last\nudp class=last\n";
    let flows = crate::flows::parse(flows.as_bytes());
    assert!(flows.problems.is_empty(), "{}", flows.problems);
    let assigned = crate::assign(flows.flows, &page).unwrap();
    let yields: Vec<bool> = assigned.flows.iter().map(|flow| flow.yields).collect();
    assert_eq!(yields, [true, false, false, true, true, false, true]);
    let kept = assigned.standing.iter().find(|flow| flow.name == "own of last").unwrap();
    assert!(kept.yields, "the first has a part of it, too");
}

#[test]
fn what_cannot_be_kept_out_of_a_drop_is_refused() {
    let any_of = |what: &str| {
        let ports: Vec<String> = (1..=9).map(|n| format!("{what} port {}", 10 * n)).collect();
        ports.join(" or ")
    };
    let page = |dropped: i32| {
        format!(
            "[[class]]\nname = \"keep\"\nmatch = \"udp and ({})\"\n\
             [[class]]\nname = \"noise\"\nmatch = \"udp and ({})\"\ndrop = true\n\
             priority = {dropped}\n",
            any_of("src"),
            any_of("dst")
        )
    };
    let said = refused(&page(-1));
    assert!(
        said[0].contains("what `keep` has of its packets takes more than 64 filters"),
        "{said:?}"
    );
    assert!(parse(&page(1)).is_ok(), "nothing has to be kept of a class that comes later");
}

#[test]
fn what_is_no_policy_is_reported_with_its_line() {
    assert!(refused("objective = \"blance\"\n")[0].starts_with("line 1: "));
    assert!(refused("\n[[class]]\nnam = \"a\"\n")[0].contains("unknown field `nam`"));
    assert!(refused("\n\n[[class]\n")[0].starts_with("line 3: "));
    assert!(refused("[[class]]\nmatch = \"udp\"\n")[0].contains("missing field `name`"));
}

#[test]
fn what_would_take_too_much_is_refused() {
    let class =
        |queues: &str| format!("[[class]]\nname = \"a\"\nmatch = \"udp\"\nqueues = {queues}\n");
    assert!(refused(&class("{ exclusive = 4294967295 }"))[0].contains("which no NIC has"));
    assert!(refused(&class("{ only = [4294967295] }"))[0].contains("which no NIC has"));
    let far = "[[dedicate]]\napp = \"x\"\nqueue = 4294967295\n";
    assert!(refused(far)[0].contains("which no NIC has"));
    let many: String =
        (0..1025).map(|i| format!("[[class]]\nname = \"c{i}\"\nmatch = \"udp\"\n")).collect();
    assert_eq!(refused(&many), ["the file: there are more than 1024 classes or dedications"]);
}

const LINES: [&str; 18] = [
    "[[class]]",
    "name = \"a\"",
    "name = \"b\"",
    "match = \"udp\"",
    "match = \"udp dst port 53\"",
    "match = \"src net 10.0.0.0/8\"",
    "queues = { exclusive = 2 }",
    "queues = { only = [1, 2] }",
    "priority = 1",
    "weight = 3",
    "objective = \"balance-rate\"",
    "objective = { pack = 3 }",
    "[[dedicate]]",
    "app = \"x\"",
    "queue = 1",
    "[locality]\ncores = [1]",
    "[paths]\ncrossing = 3",
    "drop = true",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is checked here is what the planner takes.
    #[test]
    fn a_page_that_is_read_becomes_a_policy(lines in proptest::collection::vec(proptest::sample::select(LINES.to_vec()), 0..12)) {
        match parse(&lines.join("\n")) {
            Ok(page) => prop_assert!(crate::assign(Vec::new(), &page).is_ok()),
            Err(problems) => prop_assert!(!problems.to_string().is_empty()),
        }
    }

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        let _ = parse(&text).map_err(|problems| problems.to_string());
    }
}
