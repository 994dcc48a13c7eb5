//! The scripts of `filetests/tcp`.

mod script;

use std::path::Path;

use weever_filetest::Folder;

#[test]
fn each_script_goes_as_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/tcp");
    let folder = Folder::open(&path, "pkt");
    assert!(folder.files().len() > 20, "{} scripts", folder.files().len());
    let mut wrong = Vec::new();
    for file in folder.files() {
        let text = std::fs::read_to_string(file).unwrap();
        if let Err(why) = script::run(&text) {
            wrong.push(format!("{}, {why}", file.file_name().unwrap().display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_script_that_says_something_else_fails_with_its_line() {
    let begin = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 listen(3, 1) = 0\n\
                 +0 < S 0:0(0) win 1000 <mss 1000>\n";
    let failure = |rest: &str| script::run(&format!("{begin}{rest}")).unwrap_err();
    assert!(script::run(&format!("{begin}+0 > S. 0:0(0) ack 1 <mss 1460>")).is_ok());
    for (rest, line) in [
        ("+0 > S. 0:0(0) ack 1 <mss 1461>", "line 4: mss"),
        ("+0 > . 0:0(0) ack 1 <mss 1460>", "line 4: the flags differ"),
        ("+0 > S. 0:0(0) ack 2 <mss 1460>", "line 4: ack"),
        ("+0 > S. 1:1(0) ack 1 <mss 1460>", "line 4: 1:1(0)"),
        ("+.5 > S. 0:0(0) ack 1 <mss 1460>", "line 4: it was sent at 0.000000"),
        ("+0 accept(3, ..., ...) = 4", "line 4: accept gave Err(\"EAGAIN\")"),
        ("+0 > S. 0:0(0) ack 1 <mss 1460>\n+.1 > . 1:1(0) ack 1", "line 5: nothing was sent"),
        ("", "unexpected segment"),
        ("+0 frobnicate(3) = 0", "line 4: `frobnicate`"),
        ("+0 < X 0:0(0)", "line 4: `X` is no flag"),
        ("`sysctl -q x`", "line 4: shell"),
    ] {
        let why = failure(rest);
        assert!(why.starts_with(line), "{rest}: {why}");
    }
}
