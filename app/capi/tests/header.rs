//! The header, the library and the manual say the same, and C and C++ compilers take the header.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weever_c::{Dest, Endpoint, Event, Info, State};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The words of a text that begin with `weever_` and are followed by an opening parenthesis.
fn calls(text: &str, before: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.contains(before));
    let calls = lines.filter_map(|line| {
        let name = &line[line.find("weever_").filter(|_| line.contains('('))?..];
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?];
        line.contains(&format!("{name}(")).then(|| name.to_owned())
    });
    calls.collect()
}

#[test]
fn every_call_is_in_library_header_and_manual() {
    let mut exported = BTreeSet::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        exported.extend(calls(&text, "extern \"C\" fn"));
    }
    let header = fs::read_to_string(root().join("include/weever.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#']))
        .flat_map(|line| calls(line, "weever_"))
        .collect();
    assert_eq!(exported, declared, "library and header");
    assert!(exported.len() > 25, "{exported:?}");
    let manual = fs::read_to_string(root().join("../../docs/capi.md")).unwrap();
    let explained = calls(&manual, "### `");
    assert_eq!(explained, declared, "manual and header");
}

fn compile(compiler: &str, standard: &str, extension: &str) {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: needs {compiler}");
        return;
    }
    let sizes = [
        ("weever_endpoint", size_of::<Endpoint>()),
        ("weever_dest", size_of::<Dest>()),
        ("weever_info", size_of::<Info>()),
        ("weever_event", size_of::<Event>()),
        ("weever_state", size_of::<State>()),
    ];
    let mut source = String::from("#include \"weever.h\"\n#include \"weever.h\"\n");
    for (name, size) in sizes {
        // A size that differs makes an array of a negative length.
        source += &format!("extern char {name}_size[sizeof({name}) == {size} ? 1 : -1];\n");
    }
    let file = std::env::temp_dir().join(format!("weever-{}.{extension}", std::process::id()));
    fs::write(&file, source).unwrap();
    let flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];
    let output = Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg(&file)
        .output()
        .unwrap();
    fs::remove_file(file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_c_compiler_takes_the_header() {
    compile("cc", "c99", "c");
}

#[test]
fn a_cpp_compiler_takes_the_header() {
    compile("c++", "c++11", "cpp");
}
