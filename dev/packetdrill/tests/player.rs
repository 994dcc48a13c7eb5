//! A program in C that loads the library as packetdrill does, and plays a server and a client on it.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts the library: beside this test, or a folder above.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("libweever_packetdrill.so"));
    places.find(|place| place.exists()).expect("cargo has built the library")
}

#[test]
fn a_program_plays_a_server_and_a_client() {
    let Ok(compiler) = Command::new("cc").arg("--version").output() else {
        return println!("skipped: needs a C compiler (Debian: gcc)");
    };
    assert!(compiler.status.success());
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/player.c");
    let program = std::env::temp_dir().join(format!("weever-player-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(source)
        .args(["-lpthread", "-ldl"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let played = Command::new("timeout").arg("60").arg(&program).arg(library()).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    let errors = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success() && played.stdout == b"done\n", "{}: {errors}", played.status);
}
