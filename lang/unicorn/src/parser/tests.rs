use super::parse;
use crate::ast::{Ast, ClauseKind, Item, Node};
use crate::has_errors;

fn whole(source: &str) -> Ast {
    let (ast, diagnostics) = parse(source);
    assert!(!has_errors(&diagnostics), "{diagnostics:?}");
    ast
}

fn node(item: &Item) -> &Node {
    match item {
        Item::Node(node) => node,
        Item::Cluster(cluster) => panic!("{} is a cluster", cluster.name.name),
    }
}

fn messages(source: &str) -> Vec<String> {
    parse(source).1.into_iter().map(|d| d.message).collect()
}

#[test]
fn comments_belong_to_what_they_stand_before_or_beside() {
    let ast = whole(
        "// file\n\ngraph g {\n  // lead\n\n  node A { // first\n    port /* in */ x[] // after\n\
         // tail\n  } // node\n // end\n}\n// over",
    );
    let texts = |comments: &[crate::ast::Comment]| {
        comments.iter().map(|c| (c.text.clone(), c.gap)).collect::<Vec<_>>()
    };
    let one = |text: &str, gap| vec![(text.to_string(), gap)];
    assert_eq!(texts(&ast.comments.leading), one("// file", true));
    assert_eq!(texts(&ast.comments.trailing), one("// over", false));
    assert_eq!(texts(&ast.tail), one("// end", false));
    let a = node(&ast.items[0]);
    assert_eq!(texts(&a.comments.leading), one("// lead", true));
    assert_eq!(texts(&a.comments.trailing), one("// node", false));
    assert_eq!(texts(&a.tail), one("// tail", false));
    let clause = &a.body[0];
    assert_eq!(clause.comments.leading.len(), 2);
    assert_eq!(texts(&clause.comments.trailing), one("// after", false));
}

#[test]
fn what_surrounds_an_error_is_understood() {
    let (ast, diagnostics) = parse(
        "graph g { node A { port x[] bogus ? [1] port y[B] } nod B {} rubbish { node X {} } node C {} }",
    );
    assert_eq!(diagnostics.len(), 4, "{diagnostics:?}");
    let names: Vec<&str> = ast.items.iter().map(|i| node(i).name.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "C"]);
    assert_eq!(node(&ast.items[0]).body.len(), 2);
}

#[test]
fn a_missing_brace_does_not_swallow_the_next_node() {
    let (ast, _) = parse("graph g { node A { port x[] node B { port y[] } }");
    let names: Vec<&str> = ast.items.iter().map(|i| node(i).name.name.as_str()).collect();
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn a_port_without_brackets_does_not_swallow_the_next_lines() {
    let found = messages("graph g { node A {\n port x\n notify a B\n atr \"y\"\n } }");
    assert_eq!(found, ["expected `[`", "expected a clause of a node"]);
}

#[test]
fn contextual_words_stay_names() {
    let ast = whole("graph notify { node effects { port notify effects[table] } node table {} }");
    let ClauseKind::Port { names, .. } = &node(&ast.items[0]).body[0].kind else {
        panic!("no port");
    };
    assert_eq!(names.len(), 2);
}

#[test]
fn strings_have_escapes() {
    let ast = whole(r#"graph g { node A { attr "a \"b\" \\ \x" } }"#);
    let ClauseKind::Attr(text) = &node(&ast.items[0]).body[0].kind else { panic!("no attr") };
    assert_eq!(text.value, r#"a "b" \ \x"#);
}
