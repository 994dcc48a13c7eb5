use super::*;

fn parse(text: &str) -> Source {
    Source::parse(Path::new("x/src/a.rs"), text).unwrap()
}

#[test]
fn blank_lines_comments_and_documentation_are_not_code() {
    let source = parse(
        "//! Inner.\n\n/// Outer.\n// Plain.\n/* Block\n   goes on */\nfn f() {\n\n    // Why.\n    g(\"a\nb\");\n}\n",
    );
    assert_eq!(source.code_lines, BTreeSet::from([7, 10, 11, 12]));
}

#[test]
fn a_function_is_measured_from_signature_to_brace_without_blank_lines() {
    let source = parse("#[inline]\nfn f(\n    a: u8,\n) -> u8 {\n\n    // Why.\n    a\n}\n");
    assert_eq!(source.functions, [Function { name: "f".into(), line: 2, code_lines: 5 }]);
}

#[test]
fn methods_and_default_methods_are_functions() {
    let source = parse("impl A { fn m(&self) {} }\ntrait T { fn d(&self) {} fn n(&self); }");
    let names: Vec<_> = source.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["m", "d"]);
}

#[test]
fn tests_do_not_count() {
    let source = parse(
        "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn helper() {}\n}\n#[cfg(all(test, loom))]\nmod more {\n}\n#[test]\nfn t() {}\nimpl A {\n    #[cfg(test)]\n    fn h() {}\n}\n",
    );
    assert_eq!(source.code_lines, BTreeSet::from([1, 11, 14]));
    assert_eq!(source.functions.len(), 1);
}

#[test]
fn what_is_compiled_outside_tests_counts() {
    for condition in ["not(test)", "any(test, feature = \"x\")", "feature = \"testing\""] {
        let source = parse(&format!("#[cfg({condition})]\nfn f() {{}}\n"));
        assert_eq!(source.functions.len(), 1, "{condition}");
    }
}

#[test]
fn unsafe_is_found_everywhere_but_not_in_strings_or_names() {
    let source = parse(
        "fn f() { unsafe { g() } }\nunsafe impl S for A {}\nm! { unsafe { h() } }\n// unsafe\nconst U: &str = \"unsafe\";\n#[cfg(test)]\nmod tests {\n    unsafe fn t() {}\n}\n",
    );
    assert_eq!(source.unsafe_lines, [1, 2, 3, 8]);
}

#[test]
fn forbidding_is_told_from_denying() {
    assert!(parse("#![forbid(unsafe_code)]").forbids_unsafe);
    assert!(parse("#![forbid(missing_docs, unsafe_code)]").forbids_unsafe);
    assert!(!parse("#![deny(unsafe_code)]").forbids_unsafe);
    assert!(!parse("#![forbid(unsafe_op_in_unsafe_fn)]").forbids_unsafe);
}

#[test]
fn asking_the_time_is_found_outside_tests() {
    let source = parse(
        "fn f() { let t = std::time::Instant::now(); }\nfn g(now: Instant) {}\n#[cfg(test)]\nmod tests {\n    fn t() { SystemTime::now(); }\n}\n",
    );
    assert_eq!(source.clock_lines, [(1, "Instant::now".to_owned())]);
}

#[test]
fn files_for_tests_are_known_by_their_place_or_their_declaration() {
    let tree = Tree::of(&[
        ("x/src/lib.rs", "#[cfg(test)] mod reference;\nmod a;"),
        ("x/src/reference.rs", "mod inner;"),
        ("x/src/reference/inner.rs", ""),
        ("x/src/a.rs", "#[cfg(test)] mod tests;\n#[cfg(test)] mod oracle;"),
        ("x/src/c.rs", "#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod tests;"),
        ("x/src/c_tests.rs", ""),
        ("x/src/a/tests.rs", ""),
        ("x/src/a/oracle.rs", ""),
        ("x/src/a/b.rs", ""),
        ("x/tests/t.rs", ""),
        ("x/benches/b.rs", ""),
    ]);
    let sources = parse_all(&tree).unwrap();
    let outside: Vec<_> =
        sources.iter().filter(|s| !s.is_test).map(|s| s.path.to_str().unwrap()).collect();
    assert_eq!(outside, ["x/src/a/b.rs", "x/src/a.rs", "x/src/c.rs", "x/src/lib.rs"]);
}

#[test]
fn a_file_that_does_not_parse_is_named_with_its_line() {
    let error = Source::parse(Path::new("x/src/a.rs"), "fn f() {}\nfn {\n").unwrap_err();
    assert!(error.to_string().contains("x/src/a.rs"), "{error}");
    let error = Source::parse(Path::new("x/src/a.rs"), "fn f() {}\nfn 7() {}\n").unwrap_err();
    assert!(error.to_string().contains(" 2:"), "{error}");
}
