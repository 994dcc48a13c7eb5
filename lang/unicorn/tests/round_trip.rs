//! Printing and parsing are inverse, and nothing makes the parser panic.

mod arbitrary;

use proptest::prelude::*;
use weever_unicorn::{has_errors, load, lower, parse, print, render};

/// Goes through every public door with a text.
fn survives(text: &str) {
    let (ast, diagnostics) = parse(text);
    let _ = render(&diagnostics, text, "soup");
    let _ = lower(&ast);
    if !has_errors(&diagnostics) {
        assert_eq!(parse(&print(&ast)).0, ast);
    }
    if let Err(errors) = load(text, "soup") {
        assert!(!errors.diagnostics.is_empty());
        let _ = errors.to_string();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn print_then_parse_is_the_identity(ast in arbitrary::ast()) {
        let text = print(&ast);
        let (again, diagnostics) = parse(&text);
        prop_assert!(!has_errors(&diagnostics), "{}\n{text}", render(&diagnostics, &text, "printed"));
        prop_assert_eq!(&again, &ast, "{}", text);
        prop_assert_eq!(print(&again), text);
    }

    #[test]
    fn token_soup_never_panics(text in arbitrary::soup()) {
        survives(&text);
    }

    #[test]
    fn soup_in_a_graph_never_panics(text in arbitrary::soup()) {
        survives(&format!("graph g {{ node A {{ port x[] }} {text}"));
        survives(&format!("graph g {{ cluster C {{ node A {{ {text} }} }} }}"));
    }

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_text_never_panics(ast in arbitrary::ast(), at in any::<prop::sample::Index>(), len in 0usize..20) {
        let mut text: Vec<char> = print(&ast).chars().collect();
        let at = at.index(text.len());
        text.drain(at..(at + len).min(text.len()));
        survives(&text.into_iter().collect::<String>());
    }
}

#[test]
fn deep_nesting_is_an_error_and_takes_linear_time() {
    for text in [
        "cluster A { ".repeat(100_000),
        "node A { port x[".repeat(100_000),
        "{".repeat(200_000),
        "node A { ".to_string() + &"prot a\n".repeat(100_000),
        "node A { port x[".to_string() + &"B, ".repeat(100_000),
        "or A { port true false[A] }\n".repeat(30_000),
        "config C { type ".to_string() + &"<".repeat(100_000),
        "node A { port x[] predicate x \"".to_string() + &"not(".repeat(100_000) + "\" }",
        "node A { semantics x { ".repeat(50_000),
    ] {
        let text = format!("graph g {{ {text}");
        let errors = load(&text, "deep").expect_err("the text is wrong");
        assert!(errors.to_string().len() < 1_000_000);
    }
}
