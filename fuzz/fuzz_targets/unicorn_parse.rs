//! Any text as a Unicorn file: diagnostics point into the text and can be shown, nothing on the way to
//! a graph panics, and a parsed file is the same after it has been printed and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_unicorn::{Diagnostic, has_errors, load, lower, parse, print, render};

/// Diagnostics are drawn for texts shorter than this only: drawing takes most of the time.
const SHOWN: usize = 300;

fuzz_target!(|source: &str| {
    let (ast, diagnostics) = parse(source);
    check_places(source, &diagnostics);
    if source.len() < SHOWN {
        render(&diagnostics, source, "fuzz.unicorn");
    }
    if has_errors(&diagnostics) {
        assert!(load(source, "fuzz.unicorn").is_err());
        return;
    }
    let printed = print(&ast);
    let (again, complaints) = parse(&printed);
    assert!(!has_errors(&complaints), "{}", render(&complaints, &printed, "printed.unicorn"));
    assert_eq!(again, ast, "{printed}");
    assert_eq!(print(&again), printed, "printing once is enough");
    if let Err(refused) = lower(&ast) {
        check_places(source, &refused);
    }
    match load(source, "fuzz.unicorn") {
        Ok(loaded) => check_places(source, &loaded.diagnostics),
        Err(errors) => {
            check_places(source, &errors.diagnostics);
            assert!(has_errors(&errors.diagnostics));
            let shown = source.len() < SHOWN;
            assert!(!shown || errors.to_string().contains("fuzz.unicorn"), "{errors}");
        }
    }
});

fn check_places(source: &str, diagnostics: &[Diagnostic]) {
    let related = diagnostics.iter().filter_map(|d| d.related.as_ref().map(|(span, _)| span));
    for span in diagnostics.iter().map(|d| &d.span).chain(related) {
        assert!(source.get(span.clone()).is_some(), "{span:?} of {} bytes", source.len());
    }
}
