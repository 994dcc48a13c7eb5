use proptest::prelude::*;
use weever_plan::policy::{Objective, SharingMode};

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
    assert!(page.warnings.is_empty(), "an exception in a wider class is no mistake");
    assert!(parse("").unwrap().document.classes.is_empty());
}

/// The page that explains policies has to be a policy.
#[test]
fn the_example_in_the_documentation_is_a_policy() {
    let page = include_str!("../../../../docs/policies.md");
    let example = page.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    let page = parse(example).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(page.document.classes[0].queues, weever_plan::policy::Queues::Exclusive(4));
    assert!(page.document.classes.iter().any(|c| c.drop));
    let names: Vec<&str> = page.apps.iter().map(String::as_str).collect();
    assert_eq!((&names[..], page.document.dedicate[0].queue), (&["store", "kv"][..], 5));
    let kv = TrustedApp { app: "kv".into(), queue: 5, users: vec![1000] };
    assert_eq!(page.trusted, [kv]);
    assert_eq!((page.searches.tokens, page.searches_of["store"].tokens), (4, 10));
    assert!(page.document.locality.is_some() && page.document.paths.is_some());
    let sharing = page.document.sharing.unwrap();
    assert_eq!((sharing.mode, sharing.threads), (SharingMode::Auto, Some(2)));
    assert!(page.document.classes[0].ordered);
}

fn has(said: &[String], line: usize, part: &str) {
    let start = format!("line {line}: ");
    let found = said.iter().any(|s| s.starts_with(&start) && s.contains(part));
    assert!(found, "line {line} {part}: {said:#?}");
}

#[test]
fn every_mistake_is_reported_with_its_line_and_a_remedy() {
    let said = refused(
        "[[class]]\nname = \"a\"\nmatch = \"udp dst prot 53\"\nweight = 0\n\n\
         [[class]]\nname = \"a\"\nmatch = \"udp dst port 53 and tcp\"\nqueues = { exclusive = 0 }\n\n\
         [[class]]\nname = \"default\"\nmatch = \"udp\"\nqueues = { only = [3] }\n\n\
         [[dedicate]]\napp = \"x\"\nqueue = 3\n",
    );
    for (line, part) in [
        (3, "filter of class `a`: "),
        (4, "`weight` of class `a` cannot be 0; write a number from 1 to"),
        (7, "two classes are called `a`, the first in line 2; rename"),
        (8, "no packet matches"),
        (9, "class `a` has no queue at all; give it one"),
        (12, "no class can be called `default`"),
        (16, "queue 3 is promised to class `default` and to application `x`"),
    ] {
        has(&said, line, part);
    }
    assert_eq!(said.len(), 7, "{said:#?}");
    assert!(said.iter().all(|line| line.contains("; ")), "each has a remedy: {said:#?}");
}

/// Syntax errors, unknown settings, wrong types and contradictions: none hides the others.
#[test]
fn mistakes_of_all_kinds_are_reported_in_one_run() {
    let said = refused(
        "objctive = \"balance\"\nsimplify = \"no\"\nobjective = \"blance\"\n\
         [[class]]\nnam = \"gold\"\nmatch = \"udp\"\nqueues = { exclusiv = 2 }\n\
         [[class]]\nname = \"silver\"\nmatch = tcp dst port 80\nmode = \"bussy\"\nweight = \"2\"\n\
         [[class]]\nname = \"bronze\"\npriority = 1.5\ndrop = 1\nobjective = { pack = -1 }\n\
         [[dedicate]]\napp = 7\ntrusted = [\"kv\", -1]\n\
         [locality]\ncores = \"0\"\n[paths]\nnodes = { A = \"x\" }\ncrossing = 4294967296\n",
    );
    for (line, part) in [
        (1, "has no setting `objctive`; did you mean `objective`?"),
        (2, "`simplify` of a policy cannot be a string; write `true` or `false`"),
        (3, "there is no objective `blance`; did you mean `balance`?"),
        (4, "a class has no `name`; add"),
        (5, "has no setting `nam`; did you mean `name`?"),
        (7, "`queues` of class number 1 cannot be a table; write `\"shared\"`"),
        (10, "put text in quotation marks"),
        (11, "cannot be `bussy`; did you mean `busy`?"),
        (12, "`weight` of class `silver` cannot be a string; write a number"),
        (13, "class `bronze` has no `match`; add"),
        (15, "`priority` of class `bronze` cannot be a float"),
        (16, "`drop` of class `bronze` cannot be an integer"),
        (17, "`pack` of class `bronze` cannot be -1"),
        (18, "a dedication has no `queue`"),
        (19, "`app` of a dedication cannot be an integer"),
        (20, "`trusted` of a dedication cannot be a string"),
        (20, "`trusted` of a dedication cannot be -1"),
        (22, "`cores` of [locality] cannot be a string"),
        (24, "`A` of [paths] cannot be a string"),
        (25, "`crossing` of [paths] cannot be 4294967296"),
    ] {
        has(&said, line, part);
    }
    assert_eq!(said.len(), 20, "{said:#?}");
    assert!(said.iter().all(|line| line.contains("; ")), "each has a remedy: {said:#?}");
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
    assert_eq!(page.warnings.count(), 1);
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
    let mut page = page.unwrap_or_else(|e| panic!("{e}"));
    let flows = "udp and src net 10.1.0.0/16\nudp src port 7 and src net 10.0.0.0/8\n\
                 tcp dst port 99\nudp dst port 7\nudp src port 7\ntcp class=last\nudp class=last\n";
    let flows = crate::flows::parse(flows.as_bytes());
    assert!(flows.problems.is_empty(), "{}", flows.problems);
    let (flows, problems) = page.classify(flows.flows);
    assert!(problems.is_empty(), "{problems}");
    let yields: Vec<bool> = flows.iter().map(|flow| flow.yields).collect();
    assert_eq!(yields, [true, false, false, true, true, false, true]);
    let standing = page.standing_flows();
    let kept = standing.iter().find(|flow| flow.name == "own of last").unwrap();
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
    assert!(said[0].contains("belong to `keep` takes more than 64 filters"), "{said:?}");
    assert!(parse(&page(1)).is_ok(), "nothing has to be kept of a class that comes later");
}

#[test]
fn what_is_no_policy_is_reported_with_its_line() {
    assert!(refused("objective = \"blance\"\n")[0].starts_with("line 1: "));
    assert!(refused("\n[[class]]\nnam = \"a\"\n")[0].contains("no `name`"));
    assert!(refused("\n\n[[class]\n")[0].starts_with("line 3: "));
    assert!(refused("[[class]]\nmatch = \"udp\"\n")[0].contains("a class has no `name`"));
}

#[test]
fn sharing_has_a_mode_and_order_needs_it() {
    let of = |text: &str| parse(text).unwrap_or_else(|e| panic!("{e}"));
    let modes = [
        ("shared", SharingMode::Shared),
        ("scale-out", SharingMode::ScaleOut),
        ("auto", SharingMode::Auto),
    ];
    for (word, mode) in modes {
        let page = of(&format!("[sharing]\nmode = \"{word}\"\n"));
        assert_eq!(page.document.sharing.unwrap().mode, mode);
    }
    let ordered = |more: &str| {
        let page = of(&format!("[sharing]\nmode = \"auto\"\n{more}"));
        page.document.sharing.unwrap().ordered
    };
    assert_eq!(
        [ordered(""), ordered("ordered = false\n"), ordered("ordered = true\n")],
        [false, false, true]
    );
    has(&refused("[sharing]\nmode = \"auto\"\nordered = 1\n"), 3, "ordered");
    has(&refused("[sharing]\nmode = \"autoo\"\n"), 2, "`auto`");
    has(&refused("[sharing]\nthreads = 2\n"), 1, "no `mode`");
    has(&refused("[sharing]\nmode = \"auto\"\nthreads = 0\n"), 3, "cannot be 0");
    has(&refused("[[sharing]]\nmode = \"auto\"\n"), 1, "`[sharing]`");
    let class = "[[class]]\nname = \"a\"\nmatch = \"udp\"\nordered = true\n";
    let alone = of(class);
    assert!(alone.warnings.to_string().contains("`ordered` has no effect"), "{}", alone.warnings);
    assert!(alone.standing_flows().is_empty());
    let page = of(&format!("[sharing]\nmode = \"auto\"\n{class}"));
    assert_eq!(page.standing_flows()[0].name, "all of a", "it needs a filter");
    has(&refused(&format!("{class}drop = true\n")), 5, "is dropped");
}

#[test]
fn what_would_take_too_much_is_refused() {
    let class =
        |queues: &str| format!("[[class]]\nname = \"a\"\nmatch = \"udp\"\nqueues = {queues}\n");
    assert!(refused(&class("{ exclusive = 4294967295 }"))[0].contains("cannot be 4294967295"));
    assert!(refused(&class("{ only = [4294967295] }"))[0].contains("cannot be 4294967295"));
    let far = "[[dedicate]]\napp = \"x\"\nqueue = 4294967295\n";
    assert!(refused(far)[0].contains("cannot be 4294967295"));
    let many: String =
        (0..1025).map(|i| format!("[[class]]\nname = \"c{i}\"\nmatch = \"udp\"\n")).collect();
    assert!(refused(&many)[0].contains("more than 1024 tables `[[class]]`"));
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

    /// The planner takes every policy that passes, and every mistake is reported.
    #[test]
    fn a_page_that_is_read_becomes_a_policy(lines in proptest::collection::vec(proptest::sample::select(LINES.to_vec()), 0..12)) {
        match parse(&lines.join("\n")) {
            Ok(mut page) => {
                let flows = crate::flows::parse(b"udp dst port 53 app=x\n").flows;
                let (flows, problems) = page.classify(flows);
                prop_assert!(problems.is_empty() && flows.len() == 1);
                page.cost_function(None).start(&(0..4).collect(), 0);
            }
            Err(problems) => prop_assert!(!problems.to_string().is_empty()),
        }
    }

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        let _ = parse(&text).map_err(|problems| problems.to_string());
    }
}

#[test]
fn applications_have_tokens_for_searches() {
    let of = |text: &str| parse(text).unwrap_or_else(|e| panic!("{e}")).searches;
    assert_eq!(of(""), Searches::default());
    assert_eq!(of("[searches]\ntokens = 9\nrefill = 60\n"), Searches { tokens: 9, refill: 60 });
    assert_eq!(of("[searches]\ntokens = 0\n").tokens, 0, "none may ask");
    let wrong = refused("[searches]\ntokens = -1\nrefill = 0\nevery = 3\n");
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong.iter().any(|line| line.contains("every")), "{wrong:?}");
}

const OF_KV: &str = r#"
[[class]]
name = "all"
match = "udp"

[[class]]
name = "kv"
app = "kv"
queues = { exclusive = 1 }
priority = 5
objective = "2 * balance-rate + pack(50)"
searches = { tokens = 9, refill = 60 }
"#;

#[test]
fn an_application_has_a_class_with_its_priority_cost_and_tokens() {
    let mut page = parse(OF_KV).unwrap_or_else(|e| panic!("{e}"));
    let kv = &page.document.classes[1];
    let sum = Objective::Sum(vec![(2, Objective::BalanceRate), (1, Objective::Pack(50))]);
    assert_eq!((kv.priority, kv.objective.as_ref()), (5, Some(&sum)));
    assert_eq!(page.searches, Searches::default());
    assert_eq!(page.searches_of["kv"], Searches { tokens: 9, refill: 60 });
    assert!(page.warnings.is_empty(), "{}", page.warnings);
    let flows = ["udp dst port 5 app=kv", "udp dst port 6 app=web", "udp dst port 7"];
    let specs = flows.iter().flat_map(|line| crate::flows::parse(line.as_bytes()).flows);
    let (flows, _) = page.classify(specs.collect::<Vec<_>>());
    let classes = flows.iter().map(|flow| page.document.class_name(flow.class));
    assert_eq!(classes.collect::<Vec<_>>(), ["kv", "all", "all"]);
}

#[test]
fn a_class_of_an_application_that_makes_no_sense_is_refused() {
    for (text, part) in [
        ("[[class]]\nname = \"a\"\n", "`app = \"kv\"`"),
        ("[[class]]\nname = \"a\"\napp = 5\n", "cannot be an integer"),
        ("[[class]]\nname = \"a\"\napp = \"kv\"\ndrop = true\n", "knows no applications"),
        ("[[class]]\nname = \"a\"\nmatch = \"udp\"\nsearches = { tokens = 1 }\n", "add `app`"),
        ("[[class]]\nname = \"a\"\napp = \"kv\"\nsearches = 5\n", "searches = { tokens"),
        (
            "[[class]]\nname = \"a\"\napp = \"kv\"\n[[class]]\nname = \"b\"\napp = \"kv\"\n",
            "`b` never gets a flow",
        ),
    ] {
        let problems = refused(text);
        assert!(problems.iter().any(|line| line.contains(part)), "{text}: {problems:?}");
    }
}

#[test]
fn objectives_are_expressions() {
    let of = |text: &str| parse(&format!("objective = \"{text}\"\n"));
    let good = |text: &str| of(text).unwrap_or_else(|e| panic!("{e}")).document.objective;
    assert_eq!(good("balance"), Objective::Balance);
    assert_eq!(good(" 1 * pack( 7 ) "), Objective::Pack(7));
    let terms = vec![(1, Objective::Balance), (3, Objective::PackRate(1000))];
    assert_eq!(good("balance+3*pack-rate(1000)"), Objective::Sum(terms));
    for (text, part) in [
        ("balence", "balance"),
        ("balance +", "there is no objective"),
        ("0 * balance", "no factor"),
        ("-1 * balance", "no factor"),
        ("pack", "has no limit"),
        ("pack(0)", "has no limit"),
        ("balance(3)", "in parentheses"),
        (&vec!["balance"; 17].join("+"), "more than 16"),
    ] {
        let problems = of(text).unwrap_err().to_string();
        assert!(problems.contains(part), "{text}: {problems}");
    }
}
