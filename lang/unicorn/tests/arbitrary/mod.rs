//! Random syntax trees and random token soup.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weever_graph::ConfigType;
use weever_graph::config::Length;
use weever_unicorn::ast::*;

mod nic;

fn name() -> impl Strategy<Value = String> {
    select(vec![
        "A",
        "Rx",
        "Queue0",
        "true",
        "false",
        "out",
        "_x",
        "reads",
        "notify",
        "ValidLength",
    ])
    .prop_map(String::from)
}

fn ident() -> impl Strategy<Value = Ident> {
    name().prop_map(|name| Ident { name, loc: Loc::default() })
}

fn reference() -> impl Strategy<Value = Reference> {
    (0usize..4, name()).prop_map(|(dots, name)| Reference { dots, name, loc: Loc::default() })
}

fn text() -> impl Strategy<Value = Text> {
    "[ -~\nä]{0,12}".prop_map(|value| Text { value, loc: Loc::default() })
}

fn raw() -> impl Strategy<Value = Raw> {
    let scripts = vec!["", "(= a b)", "(a\n  (b))\n\n(c)", "(a) ; {}\n(b)", "|}| \"}\""];
    select(scripts).prop_map(|s| Raw { text: s.into(), loc: Loc::default() })
}

fn line_comment() -> impl Strategy<Value = String> {
    "// [a-z{}*/]{0,6}".prop_map(|s| s.trim_end().to_string())
}

fn block_comment() -> impl Strategy<Value = String> {
    select(vec!["/**/", "/* a */", "/* a\n * b\n */", "/***/", "/* x\n\n   y */"])
        .prop_map(String::from)
}

fn lines() -> impl Strategy<Value = Vec<Comment>> {
    let comment = (prop_oneof![line_comment(), block_comment()], any::<bool>())
        .prop_map(|(text, gap)| Comment { text, gap });
    vec(comment, 0..3)
}

/// Before a closing brace: nothing follows that a gap could part from.
fn tail() -> impl Strategy<Value = Vec<Comment>> {
    lines().prop_map(|mut comments| {
        comments.last_mut().map(|c| c.gap = false).unwrap_or_default();
        comments
    })
}

fn comments() -> impl Strategy<Value = Comments> {
    let without_gap = |text| Comment { text, gap: false };
    let blocks = vec(block_comment().prop_map(without_gap), 0..2);
    let last = option::of(line_comment().prop_map(without_gap));
    (lines(), blocks, last).prop_map(|(leading, mut trailing, last)| {
        trailing.extend(last);
        Comments { leading, trailing }
    })
}

fn length() -> impl Strategy<Value = Length> {
    (option::of(0u64..9), option::of(9u64..20)).prop_map(|(min, max)| Length { min, max })
}

fn config_type() -> impl Strategy<Value = ConfigType> {
    let leaf = prop_oneof![
        Just(ConfigType::Bool),
        (-9i64..9, 9i64..20).prop_map(|(lo, hi)| ConfigType::Int { lo, hi }),
        (1u32..=128).prop_map(ConfigType::UInt),
        (1u32..=128).prop_map(ConfigType::SInt),
        vec(name(), 1..3).prop_map(ConfigType::Enum),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let members = vec((name(), inner.clone()), 0..3).boxed();
        prop_oneof![
            inner.clone().prop_map(|t| ConfigType::Optional(Box::new(t))),
            (any::<bool>(), inner, length()).prop_map(|(ordered, t, length)| {
                ConfigType::List { ordered, element: Box::new(t), length }
            }),
            members.clone().prop_map(ConfigType::Product),
            members.prop_map(ConfigType::Sum),
        ]
    })
}

fn effect() -> impl Strategy<Value = Ident> {
    let names = vec!["reads", "writes", "moves_head", "consumes", "blocks"];
    select(names).prop_map(|n| Ident { name: n.into(), loc: Loc::default() })
}

fn clause_kind(config: bool) -> BoxedStrategy<ClauseKind> {
    let common = prop_oneof![
        4 => (vec(ident(), 0..3), vec(reference(), 0..20))
            .prop_map(|(names, targets)| ClauseKind::Port { names, targets }),
        1 => (ident(), reference(), vec(text(), 0..3)).prop_map(|(label, target, predicates)| {
            ClauseKind::Spawn { label, target, predicates }
        }),
        1 => (ident(), reference())
            .prop_map(|(label, target)| ClauseKind::Notify { label, target }),
        1 => vec(effect(), 0..3).prop_map(ClauseKind::Effects),
        1 => text().prop_map(ClauseKind::Attr),
        1 => ident().prop_map(ClauseKind::Implementation),
        1 => (ident(), text()).prop_map(|(port, text)| ClauseKind::Constraint { port, text }),
        1 => (ident(), text()).prop_map(|(port, text)| ClauseKind::Predicate { port, text }),
        1 => (vec(ident(), 0..3), raw())
            .prop_map(|(ports, body)| ClauseKind::Semantics { ports, body }),
    ];
    if !config {
        return common.boxed();
    }
    prop_oneof![
        3 => common,
        1 => ident().prop_map(ClauseKind::Function),
        1 => config_type().prop_map(ClauseKind::Type),
        2 => nic::table().prop_map(ClauseKind::Table),
        1 => nic::rss().prop_map(ClauseKind::Rss),
        1 => nic::feature().prop_map(ClauseKind::Feature),
    ]
    .boxed()
}

fn node() -> impl Strategy<Value = Node> {
    let clauses = |kind: NodeKind| {
        let clause = (clause_kind(kind == NodeKind::Config), comments());
        let clause = clause.prop_map(|(kind, comments)| {
            let loc = Loc::default();
            Clause { kind, comments, loc }
        });
        (Just(kind), ident(), vec(clause, 0..5), comments(), tail())
    };
    select(NodeKind::ALL.to_vec())
        .prop_flat_map(clauses)
        .prop_map(|(kind, name, body, comments, tail)| Node { kind, name, body, comments, tail })
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let leaf = prop_oneof![6 => node(), 1 => nic::queues()].prop_map(Item::Node);
    let item = leaf.prop_recursive(3, 12, 4, |inner| {
        (ident(), vec(inner, 0..4), comments(), tail()).prop_map(|(name, items, comments, tail)| {
            Item::Cluster(Cluster { name, items, comments, tail })
        })
    });
    vec(item, 0..5)
}

/// Any tree that a text can have.
pub(crate) fn ast() -> impl Strategy<Value = Ast> {
    let helpers = (raw(), comments()).prop_map(|(body, comments)| Helpers { body, comments });
    (ident(), option::of(helpers), items(), lines(), tail(), tail()).prop_map(
        |(name, helpers, items, leading, trailing, tail)| Ast {
            name,
            helpers,
            items,
            comments: Comments { leading, trailing },
            tail,
        },
    )
}

/// Tokens in any order.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    let word = select(vec![
        "graph",
        "cluster",
        "node",
        "config",
        "boolean",
        "and",
        "or",
        "port",
        "attr",
        "type",
        "semantics",
        "helpers",
        "spawn",
        "notify",
        "effects",
        "predicate",
        "constraint",
        "implementation",
        "function",
        "table",
        "rss",
        "queues",
        "match",
        "ip4",
        "whole",
        "capacity",
        "4",
        "tuple",
        "linux",
        "ethtool",
        "A",
        "B",
        "true",
        "false",
        "reads",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        ",",
        ":",
        "|",
        "|<",
        ".",
        "..",
        "7",
        "-1",
        "UInt",
        "Int",
        "Enum",
        "\"text\"",
        "\"udp port\"",
        "\"",
        "//",
        "/*",
        "*/",
        "\n",
        "\\",
        "ä",
        "prot",
        ";",
        "#",
    ]);
    vec(word, 0..120).prop_map(|words| words.join(" "))
}
