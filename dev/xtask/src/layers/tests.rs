use super::*;
use crate::files::Tree;
use crate::metadata::Member;
use crate::source::parse_all;

/// Failures of a crate `a` with these files in `a/src`.
fn failures(files: &[(&str, &str)], exceptions: &str) -> Vec<String> {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("a/src/{path}"), *text)).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let sources = parse_all(&Tree::of(&files)).unwrap();
    let roots = vec!["a/src/lib.rs".into()];
    let mut workspace = Workspace::default();
    workspace.members.insert("a".to_owned(), Member { roots, ..Member::default() });
    let mut report = Findings::default();
    check(&workspace, &sources, &toml::from_str(exceptions).unwrap(), &mut report);
    report.failures()
}

const LIB: (&str, &str) = ("lib.rs", "mod x; mod y; pub use x::X;");

#[test]
fn files_in_layers_pass() {
    let files = [
        ("lib.rs", "mod x; mod y; pub use x::X; pub use y::Y;"),
        ("x.rs", "use crate::y::Y; pub struct X(Y);"),
        ("y.rs", "pub struct Y; /// See [`crate::X`].\npub fn f() {}"),
    ];
    assert_eq!(failures(&files, ""), [""; 0]);
}

#[test]
fn a_circle_is_shown_with_what_makes_it() {
    let files =
        [LIB, ("x.rs", "use crate::y::Y; pub struct X(Y);"), ("y.rs", "pub struct Y(super::X);")];
    let found = failures(&files, "").concat();
    assert!(found.starts_with("circle a/src/x.rs: 2 files"), "{found}");
    assert!(found.contains("a/src/x.rs -> a/src/y.rs: Y\n"), "{found}");
    // An item re-exported by `lib.rs` is found where it is defined.
    assert!(found.contains("a/src/y.rs -> a/src/x.rs: X\n"), "{found}");
}

#[test]
fn every_way_to_name_an_item_counts() {
    let ways = [
        "use super::{x as other}; fn f() { other::g() }",
        "use crate::x::*; fn f() { g() }",
        "fn f() { assert!(crate::x::g()) }",
        "mod inner { fn f() { super::super::x::g() } }",
        "use crate::x::g as h;",
        "fn f() -> crate::X { todo() }",
    ];
    for way in ways {
        let y = format!("pub struct Y; {way}");
        let files =
            [LIB, ("x.rs", "use crate::y::Y; pub struct X(Y); pub fn g() {}"), ("y.rs", &y)];
        assert_eq!(failures(&files, "").len(), 1, "{way}");
    }
}

#[test]
fn tests_and_mere_modules_do_not_count() {
    let ways = [
        "#[cfg(test)] mod tests { use crate::X; }",
        "use crate::x;",
        "pub(in crate::x) fn f() {}",
        "fn f(X: u8) { other::X() }",
        "pub use crate::x::X as Renamed;",
    ];
    for way in ways {
        let with_y = format!("pub struct Y; {way}");
        let files = [LIB, ("x.rs", "use crate::y::Y; pub struct X(Y);"), ("y.rs", &with_y)];
        assert_eq!(failures(&files, ""), [""; 0], "{way}");
    }
}

#[test]
fn a_parent_with_code_of_its_own_is_in_a_layer_too() {
    let child = ("x/y.rs", "use super::X; pub fn f(x: X) {}");
    let declares =
        [("lib.rs", "mod x;"), ("x/mod.rs", "mod y; mod z; pub use y::f; pub use z::X;")];
    let files = [declares[0], declares[1], child, ("x/z.rs", "pub struct X;")];
    assert_eq!(failures(&files, ""), [""; 0]);
    let files =
        [declares[0], ("x/mod.rs", "mod y; pub use y::f; pub struct X; fn g() { f(X) }"), child];
    assert_eq!(failures(&files, "").len(), 1);
}

#[test]
fn a_listed_circle_passes_until_it_is_mended() {
    let circle =
        [LIB, ("x.rs", "use crate::y::Y; pub struct X(Y);"), ("y.rs", "pub struct Y(crate::X);")];
    let listed = "[[circle]]\nfiles=['a/src/x.rs', 'a/src/y.rs']\nreason='older'";
    assert_eq!(failures(&circle, listed), [""; 0]);
    let mended = [LIB, circle[1], ("y.rs", "pub struct Y;")];
    let found = failures(&mended, listed);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("in no circle any more"), "{found:?}");
}

#[test]
fn a_listed_circle_may_not_grow() {
    let files = [
        ("lib.rs", "mod x; mod y; mod z;"),
        ("x.rs", "use crate::y::Y; pub struct X(Y);"),
        ("y.rs", "use crate::z::Z; pub struct Y(Z);"),
        ("z.rs", "pub struct Z(crate::x::X);"),
    ];
    let listed = "[[circle]]\nfiles=['a/src/x.rs', 'a/src/y.rs']\nreason='older'";
    assert!(failures(&files, listed).concat().contains("3 files"));
}
