//! Runs `filetests/blocks`: see the README there. Adding a test needs no change in this file.

use std::path::{Path, PathBuf};

mod filetests {
    pub(crate) mod packets;
    pub(crate) mod script;
}

use filetests::script;
use weever_filetest::Folder;

#[test]
fn every_script_does_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/blocks");
    let folder = Folder::open(&path, "test");
    assert!(folder.files().len() >= 5, "the filetests are not there");
    let run = |path: &PathBuf| script::run(path).err();
    let failures: Vec<String> = folder.files().iter().filter_map(run).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// A script that expects the wrong thing fails, and says where.
#[test]
fn failures_name_file_and_line() {
    let dir = std::env::temp_dir().join(format!("weever-filetest-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    for (text, complaint) in [
        ("graph host\nserve echo 7\nreceive udp 5000 7 \"x\"\ndrop RxL4UDPEcho 1 loop\n", "4: "),
        ("graph host\nrecieve arp reply\n", "2: unknown word `recieve`"),
        ("graph host\nreceive udp 5000 \"x\"\n", "2: expected a port"),
        ("graph host\nreceive arp request 10.0.0.1\nsent none\n", "3: "),
        ("graph nowhere.unicorn\nreceive hex 00\n", "nowhere.unicorn"),
        ("receive hex 00\n", "no graph"),
    ] {
        let path = dir.join("wrong.test");
        std::fs::write(&path, text).expect("the temporary folder can be written");
        let error = script::run(&path).expect_err(text);
        assert!(error.contains(complaint) && error.contains("wrong.test"), "{text}: {error}");
    }
    std::fs::remove_dir_all(&dir).expect("the temporary folder can be removed");
}
