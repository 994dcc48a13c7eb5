//! A Rust file, reduced to the facts that the checks need.

mod items;
mod scopes;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{LineColumn, TokenStream};
use syn::visit::Visit;

use crate::files::Tree;
use crate::report::Error;
use items::{Items, forbids_unsafe};
use words::Words;

pub(crate) use scopes::{Import, Scope};

/// One parsed file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    /// All its lines, with comments, blank lines and tests.
    pub(crate) lines: usize,
    /// Lines with code on them, outside tests: neither blank nor comment nor documentation.
    pub(crate) code_lines: BTreeSet<usize>,
    /// Functions outside tests.
    pub(crate) functions: Vec<Function>,
    /// Lines with the word `unsafe`, in tests too.
    pub(crate) unsafe_lines: Vec<usize>,
    /// Lines outside tests that ask a clock for the time, with the function they call.
    pub(crate) clock_lines: Vec<(usize, String)>,
    /// It says `#![forbid(unsafe_code)]`.
    pub(crate) forbids_unsafe: bool,
    /// The whole file is for tests only.
    pub(crate) is_test: bool,
    /// Public items outside tests, with their lines.
    pub(crate) public: Vec<(String, usize)>,
    /// Names that its code outside tests mentions; neither definitions nor `use` declarations.
    pub(crate) mentions: BTreeSet<String>,
    /// The same for its tests.
    pub(crate) test_mentions: BTreeSet<String>,
    /// Its modules outside tests: its own and those that it writes inline.
    pub(crate) scopes: Vec<Scope>,
    /// Modules for tests only that live in files of their own.
    test_modules: Vec<String>,
    /// The same for those that name their file with `#[path]`.
    test_files: Vec<String>,
}

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines with code, from the signature to the closing brace.
    pub(crate) code_lines: usize,
}

/// Parses every Rust file of the tree.
pub(crate) fn parse_all(tree: &Tree) -> Result<Vec<Source>, Error> {
    let mut sources: Vec<Source> = tree
        .with_extension("rs")
        .map(|(path, text)| Source::parse(path, &text))
        .collect::<Result<_, _>>()?;
    let test_modules: Vec<PathBuf> = sources.iter().flat_map(Source::test_module_paths).collect();
    for source in &mut sources {
        source.is_test |= test_modules.iter().any(|module| source.path.starts_with(module))
            || test_modules.iter().any(|module| source.path == module.with_extension("rs"));
    }
    Ok(sources)
}

impl Source {
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let wrong = |e: syn::Error| {
            let LineColumn { line, column } = e.span().start();
            Error::Parse { path: path.to_owned(), message: format!("{line}:{column}: {e}") }
        };
        let file = syn::parse_file(text).map_err(wrong)?;
        let tokens: TokenStream = text.parse().map_err(|e| wrong(syn::Error::from(e)))?;
        let mut words = Words::default();
        words.read(tokens);
        let mut items = Items::default();
        items.visit_file(&file);
        let in_tests = |line: usize| items.tests.iter().any(|range| range.contains(&line));
        words.code_lines.retain(|&line| !in_tests(line));
        words.clock_lines.retain(|(line, _)| !in_tests(*line));
        let in_use = |line: usize| items.uses.iter().any(|range| range.contains(&line));
        words.mentions.retain(|(line, _)| !in_use(*line));
        let (test_mentions, mentions): (Vec<_>, Vec<_>) =
            words.mentions.into_iter().partition(|(line, _)| in_tests(*line));
        items.public.retain(|(_, line)| !in_tests(*line));
        let functions = items.functions.iter();
        Ok(Self {
            path: path.to_owned(),
            lines: text.lines().count(),
            functions: functions
                .filter(|(_, range)| !in_tests(*range.start()))
                .map(|(name, range)| Function {
                    name: name.clone(),
                    line: *range.start(),
                    code_lines: words.code_lines.range(range.clone()).count(),
                })
                .collect(),
            code_lines: words.code_lines,
            unsafe_lines: words.unsafe_lines,
            clock_lines: words.clock_lines,
            forbids_unsafe: file.attrs.iter().any(forbids_unsafe),
            is_test: is_test_path(path),
            public: items.public,
            mentions: mentions.into_iter().map(|(_, name)| name).collect(),
            test_mentions: test_mentions.into_iter().map(|(_, name)| name).collect(),
            scopes: scopes::scopes(&file),
            test_modules: items.test_modules,
            test_files: items.test_files,
        })
    }

    /// Where the modules are that only tests have: `x` stands for `x.rs` and the folder `x`.
    fn test_module_paths(&self) -> Vec<PathBuf> {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let placed = self.test_files.iter().map(|file| parent.join(file).with_extension(""));
        let stem = self.path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
        let folder = match stem {
            "lib" | "main" | "mod" => parent.to_owned(),
            _ => parent.join(stem),
        };
        self.test_modules.iter().map(|name| folder.join(name)).chain(placed).collect()
    }
}

/// Integration tests, benchmarks, and `tests.rs` beside the code.
fn is_test_path(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs")
        || path
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches")))
}

#[cfg(test)]
mod tests;
