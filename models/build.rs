//! Lists `nic/*.unicorn`, so that a NIC is added by adding a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("nic");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "unicorn"));
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.file_stem().expect("a file's name").to_string_lossy();
        let path = file.display().to_string();
        let _ = writeln!(
            list,
            "({name:?}, Model {{ file: {:?}, source: include_str!({path:?}) }}),",
            format!("nic/{name}.unicorn")
        );
    }
    list.push(']');
    let out = Path::new(&variable("OUT_DIR")).join("nics.rs");
    std::fs::write(&out, list).unwrap_or_else(|e| panic!("{out:?}: {e}"));
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}
