//! Commands on real files: reading, writing back, and unreadable files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use weever_commands_graph::{GraphCommand, GraphToolError, Streams, run_with};

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: GraphCommand,
}

struct Ran {
    result: Result<ExitCode, GraphToolError>,
    output: String,
    errors: String,
}

fn run(words: &[&str]) -> Ran {
    let command = Line::try_parse_from(words).expect("a command").command;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut std::io::empty(),
        output: &mut output,
        errors: &mut errors,
        colours: false,
    };
    let result = run_with(command, &mut streams);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { result, output: text(output), errors: text(errors) }
}

/// A file of its own for each test, gone afterwards.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, contents: &[u8]) -> Temporary {
        let name = format!("weever-commands-graph-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, contents).expect("a writable temporary folder");
        Temporary(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    fn contents(&self) -> String {
        std::fs::read_to_string(&self.0).expect("still there")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const UGLY: &str = "graph g { node A { port x[] } }";
const NEAT: &str = "graph g {\n    node A {\n        port x[]\n    }\n}\n";

fn is(ran: &Ran, code: ExitCode) -> bool {
    ran.result.as_ref().is_ok_and(|c| *c == code)
}

#[test]
fn fmt_prints_checks_and_writes() {
    let file = Temporary::new("fmt", UGLY.as_bytes());
    assert_eq!(run(&["fmt", file.path()]).output, NEAT);
    let check = run(&["fmt", "--check", file.path()]);
    assert!(is(&check, ExitCode::FAILURE) && check.output.is_empty());
    assert!(check.errors.contains("fmt --write"), "{}", check.errors);
    assert_eq!(file.contents(), UGLY);
    assert!(is(&run(&["fmt", "--write", file.path()]), ExitCode::SUCCESS));
    assert_eq!(file.contents(), NEAT);
    assert!(is(&run(&["fmt", "--check", file.path()]), ExitCode::SUCCESS));
}

#[test]
fn fmt_leaves_a_wrong_file_alone() {
    let file = Temporary::new("wrong", b"graph g { nod A {} }");
    let ran = run(&["fmt", "--write", file.path()]);
    assert!(is(&ran, ExitCode::FAILURE) && ran.errors.contains("did you mean `node`?"));
    assert_eq!(file.contents(), "graph g { nod A {} }");
}

#[test]
fn what_cannot_be_read_is_named() {
    let missing = run(&["check", "/nowhere/x.unicorn"]).result.unwrap_err();
    assert!(matches!(missing, GraphToolError::Read { .. }));
    assert!(missing.to_string().contains("/nowhere/x.unicorn"), "{missing}");
    let folder = run(&["show", Path::new("/tmp").to_str().unwrap()]).result.unwrap_err();
    assert!(matches!(folder, GraphToolError::Read { .. }));
    let binary = Temporary::new("binary", b"graph \xff");
    let error = run(&["dot", binary.path()]).result.unwrap_err();
    assert!(matches!(error, GraphToolError::NotText { at: 6, .. }), "{error}");
    let stdin = run(&["fmt", "--write", "-"]).result.unwrap_err();
    assert!(matches!(stdin, GraphToolError::WriteToStdin));
    assert_eq!(stdin.exit_code(), ExitCode::from(2));
}

#[test]
fn what_does_not_end_is_not_read_forever() {
    for words in [&["check", "/dev/zero"][..], &["fmt", "/dev/zero"]] {
        let error = run(words).result.unwrap_err();
        assert!(matches!(error, GraphToolError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains("/dev/zero is longer than 16 MiB"), "{error}");
    }
    let command = Line::try_parse_from(["check", "-"]).expect("a command").command;
    let mut streams = Streams {
        input: &mut std::io::repeat(b' '),
        output: &mut std::io::sink(),
        errors: &mut std::io::sink(),
        colours: false,
    };
    let error = run_with(command, &mut streams).unwrap_err();
    assert!(error.to_string().contains("<stdin> is longer"), "{error}");
}

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/proto/host.unicorn");
const NO_SOCKETS: &str = "--set=RxL4UDPSockets=empty";

#[test]
fn the_hosts_graph_passes_every_check() {
    let checked = run(&["check", "--executable", NO_SOCKETS, HOST]);
    assert!(is(&checked, ExitCode::SUCCESS), "{}", checked.errors);
    assert_eq!(checked.errors, "", "there is nothing to note");
    // Without a value it does not, and says how to give one.
    let open = run(&["check", "--executable", HOST]);
    assert!(is(&open, ExitCode::FAILURE) && open.errors.contains("RxL4UDPSockets=empty"));
}

/// The labels of the host's graph: sums, options, the way back, the quote, and what blocks remember.
#[test]
fn few_predicates_of_the_hosts_graph_are_opaque() {
    let checked = run(&["check", "--stats", NO_SOCKETS, HOST]);
    assert!(is(&checked, ExitCode::SUCCESS), "{}", checked.errors);
    let opaque = checked.output.lines().find_map(|l| l.strip_prefix("opaque predicates: "));
    let opaque: usize = opaque.and_then(|n| n.parse().ok()).expect("the line is there");
    assert_eq!(checked.output.lines().filter(|l| l.starts_with("  Rx")).count(), opaque);
    assert!((1..=16).contains(&opaque), "{}", checked.output);
    let plain = run(&["check", NO_SOCKETS, HOST]);
    assert!(!plain.output.contains("opaque"), "{}", plain.output);
}

#[test]
fn effects_of_blocks_are_checked_in_the_hosts_graph() {
    let host = std::fs::read_to_string(HOST).expect("the model");
    let spoilt = host.replace("port out[L2EtherClassified]", "port out[L2EtherClassified Bad]");
    let writer = "node Bad { implementation TxL2EtherFillHeader port true false[] }";
    let spoilt = spoilt.replace("cluster Rx {", &format!("cluster Rx {{ {writer}"));
    let file = Temporary::new("spoilt", spoilt.as_bytes());
    let checked = run(&["check", "--executable", NO_SOCKETS, file.path()]);
    assert!(is(&checked, ExitCode::FAILURE), "{}", checked.output);
    assert!(checked.errors.contains("can both run on one packet"), "{}", checked.errors);
    let file = Temporary::new("foreign", spoilt.replace("TxL2EtherFillHeader", "Foo").as_bytes());
    let checked = run(&["check", "--executable", NO_SOCKETS, file.path()]);
    assert!(is(&checked, ExitCode::SUCCESS), "{}", checked.errors);
    assert!(checked.errors.contains("no block implements `Foo`:"), "{}", checked.errors);
}

#[test]
fn settings_are_checked_on_the_command_line() {
    for bad in ["--set=A", "--set==b", "--set=a="] {
        assert!(Line::try_parse_from(["check", bad, "x"]).is_err(), "{bad}");
    }
}

#[test]
fn a_picture_goes_to_a_file_or_to_standard_output() {
    let file = Temporary::new("svg", UGLY.as_bytes());
    let printed = run(&["svg", file.path()]).output;
    assert!(printed.starts_with("<svg") && printed.contains("port x"), "{printed}");
    let out = Temporary::new("out.svg", b"old");
    let written = run(&["svg", file.path(), "-o", out.path()]);
    assert!(is(&written, ExitCode::SUCCESS) && written.output.is_empty());
    assert_eq!(out.contents(), printed);
    // Conditions are in the tooltips.
    let picture = run(&["svg", HOST, "--unfold", "RxL2Ether"]).output;
    assert!(picture.contains("if frame.len in 14-65535"), "no condition");
}

#[test]
fn a_picture_goes_to_a_new_file_through_a_link_and_to_a_device() {
    let file = Temporary::new("draw", UGLY.as_bytes());
    let printed = run(&["svg", file.path()]).output;
    let old = Temporary::new("link-old.svg", b"old");
    let link = Temporary::new("link.svg", b"");
    std::fs::remove_file(&link.0).unwrap();
    assert!(is(&run(&["svg", file.path(), "-o", link.path()]), ExitCode::SUCCESS));
    assert_eq!(link.contents(), printed, "a file that was not there");
    std::fs::remove_file(&link.0).unwrap();
    std::os::unix::fs::symlink(&old.0, &link.0).unwrap();
    assert!(is(&run(&["svg", file.path(), "-o", link.path()]), ExitCode::SUCCESS));
    assert_eq!(old.contents(), printed, "the link's target");
    assert!(std::fs::symlink_metadata(&link.0).unwrap().is_symlink());
    assert!(is(&run(&["svg", file.path(), "-o", "/dev/null"]), ExitCode::SUCCESS));
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file(), "replaced a device");
    let lost = run(&["svg", file.path(), "-o", "/nonexistent/x.svg"]).result.unwrap_err();
    assert!(lost.to_string().contains("/nonexistent/x.svg"), "{lost}");
}

#[test]
fn either_a_file_or_what_runs() {
    let refused = |words: &[&str]| Line::try_parse_from(words).is_err();
    assert!(refused(&["svg"]) && refused(&["svg", "--running", "x.unicorn"]));
    assert!(refused(&["show", "--running", "--set=A=b"]));
    assert!(!refused(&["svg", "--running"]) && !refused(&["show", "--dev", "eth0"]));
    let nobody = run(&["svg", "--socket", "/nonexistent/x.sock"]).result.unwrap_err();
    assert!(matches!(nobody, GraphToolError::Running(_)), "{nobody}");
    assert_eq!(nobody.exit_code(), ExitCode::FAILURE);
}

#[test]
fn clusters_are_folded_in_pictures_unless_they_are_named() {
    let text = "graph g { cluster A { node B { port out[C] } node C { port x[] } } }";
    let file = Temporary::new("folded", text.as_bytes());
    let folded = run(&["svg", file.path()]).output;
    assert!(folded.contains("2 nodes") && !folded.contains("AB: function"), "{folded}");
    for more in [&["--all"][..], &["--unfold", "A"]] {
        let whole = run(&[&["svg", file.path()], more].concat()).output;
        assert!(whole.contains("AB: function"), "{whole}");
    }
    let wrong = run(&["svg", file.path(), "--unfold", "AA"]).result.unwrap_err().to_string();
    assert_eq!(wrong, "the graph has no innermost cluster `AA`; did you mean `A`?");
}

#[test]
fn apply_tells_the_doubts_that_check_tells() {
    let text = "graph g { node A { attr \"source\" port x[] } }";
    let file = Temporary::new("doubts", text.as_bytes());
    let check = run(&["check", file.path()]).errors;
    assert!(!check.is_empty(), "a port that leads nowhere is worth a note");
    let applied = run(&["apply", "--socket", "/nonexistent/weever.sock", file.path()]);
    assert_eq!(applied.errors, check);
    assert!(applied.result.is_err(), "no stack is there");
}
