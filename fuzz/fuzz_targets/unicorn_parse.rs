//! Any text as a Unicorn file: what is said about it points into it and can be shown, and the whole
//! way to a graph never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_unicorn::{Diagnostic, has_errors, load, lower, parse, render};

fuzz_target!(|source: &str| {
    let (ast, diagnostics) = parse(source);
    check_places(source, &diagnostics);
    render(&diagnostics, source, "fuzz.unicorn");
    if has_errors(&diagnostics) {
        assert!(load(source, "fuzz.unicorn").is_err());
        return;
    }
    if let Err(refused) = lower(&ast) {
        check_places(source, &refused);
    }
    match load(source, "fuzz.unicorn") {
        Ok(loaded) => check_places(source, &loaded.diagnostics),
        Err(errors) => {
            check_places(source, &errors.diagnostics);
            assert!(has_errors(&errors.diagnostics));
            assert!(errors.to_string().contains("fuzz.unicorn"), "{errors}");
        }
    }
});

fn check_places(source: &str, diagnostics: &[Diagnostic]) {
    let related = diagnostics.iter().filter_map(|d| d.related.as_ref().map(|(span, _)| span));
    for span in diagnostics.iter().map(|d| &d.span).chain(related) {
        assert!(source.get(span.clone()).is_some(), "{span:?} of {} bytes", source.len());
    }
}
