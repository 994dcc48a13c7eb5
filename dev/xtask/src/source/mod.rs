//! A Rust file, reduced to what the checks ask of it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprLit, ImplItemFn, Item, ItemFn, ItemMod, Lit, Meta, MetaNameValue,
    Signature, TraitItemFn,
};

use crate::error::Error;
use crate::files::Tree;

/// One parsed file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    /// Lines with code on them, outside tests: neither blank nor comment nor documentation.
    pub(crate) code_lines: BTreeSet<usize>,
    /// Functions outside tests.
    pub(crate) functions: Vec<Function>,
    /// Lines with the word `unsafe`, in tests too.
    pub(crate) unsafe_lines: Vec<usize>,
    /// Lines outside tests that ask a clock for the time, with what they call.
    pub(crate) clock_lines: Vec<(usize, String)>,
    /// It says `#![forbid(unsafe_code)]`.
    pub(crate) forbids_unsafe: bool,
    /// The whole file is for tests only.
    pub(crate) is_test: bool,
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
        let functions = items.functions.iter();
        Ok(Self {
            path: path.to_owned(),
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

fn forbids_unsafe(attribute: &Attribute) -> bool {
    attribute.path().is_ident("forbid")
        && attribute.meta.require_list().is_ok_and(|list| {
            list.tokens.to_string().split(',').any(|word| word.trim() == "unsafe_code")
        })
}

/// True for `#[test]`, and for a `#[cfg(…)]` that holds in tests only.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if !path.is_ident("cfg") {
            return path.segments.last().is_some_and(|segment| segment.ident == "test");
        }
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
        condition.is_ok_and(|condition| {
            let dense: String = condition.split_whitespace().collect();
            let mut names = dense.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.any(|name| name == "test")
                && !dense.contains("not(test)")
                && !dense.starts_with("any(")
        })
    })
}

/// What can be read off the tokens without their structure.
#[derive(Default)]
struct Words {
    code_lines: BTreeSet<usize>,
    unsafe_lines: Vec<usize>,
    clock_lines: Vec<(usize, String)>,
}

impl Words {
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            let rest = &tokens[index..];
            if let Some(length) = documentation(rest) {
                index += length;
                continue;
            }
            if let Some(call) = clock_call(rest) {
                self.clock_lines.push((token.span().start().line, call));
            }
            self.read_one(token);
            index += 1;
        }
    }

    fn read_one(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Group(group) => {
                self.mark(group.span_open());
                self.read(group.stream());
                self.mark(group.span_close());
            }
            other => self.mark(other.span()),
        }
        if matches!(token, TokenTree::Ident(word) if word == "unsafe") {
            self.unsafe_lines.push(token.span().start().line);
        }
    }

    fn mark(&mut self, span: Span) {
        self.code_lines.extend(lines(span));
    }
}

fn lines(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// How many tokens a documentation comment takes, which the lexer turns into `#[doc = …]`.
fn documentation(tokens: &[TokenTree]) -> Option<usize> {
    let is = |token: Option<&TokenTree>, symbol| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == symbol);
    let inner = usize::from(is(tokens.get(1), '!'));
    let Some(TokenTree::Group(group)) = tokens.get(1 + inner) else { return None };
    let first = group.stream().into_iter().next();
    let is_doc = matches!(first, Some(TokenTree::Ident(word)) if word == "doc");
    let brackets = group.delimiter() == Delimiter::Bracket;
    (is(tokens.first(), '#') && brackets && is_doc).then_some(2 + inner)
}

/// `Instant::now` and `SystemTime::now`.
fn clock_call(tokens: &[TokenTree]) -> Option<String> {
    let [TokenTree::Ident(clock), _, _, TokenTree::Ident(method), ..] = tokens else {
        return None;
    };
    let call = format!("{clock}::{method}");
    ["Instant::now", "SystemTime::now"].contains(&call.as_str()).then_some(call)
}

/// What needs the structure.
#[derive(Default)]
struct Items {
    functions: Vec<(String, RangeInclusive<usize>)>,
    tests: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
    test_files: Vec<String>,
}

impl Items {
    fn function(&mut self, signature: &Signature, body: Span) {
        let range = signature.span().start().line..=body.end().line;
        self.functions.push((signature.ident.to_string(), range));
    }

    fn note_test(&mut self, attributes: &[Attribute], span: Span) {
        if is_test_only(attributes) {
            self.tests.push(lines(span));
        }
    }
}

impl<'a> Visit<'a> for Items {
    fn visit_item(&mut self, item: &'a Item) {
        self.note_test(attributes(item), item.span());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if module.content.is_none() && is_test_only(&module.attrs) {
            match module.attrs.iter().find_map(explicit_path) {
                Some(file) => self.test_files.push(file),
                None => self.test_modules.push(module.ident.to_string()),
            }
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.function(&function.sig, function.block.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        self.note_test(&function.attrs, function.span());
        self.function(&function.sig, function.block.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.sig, body.span());
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// The file of `#[path = "file"]`.
fn explicit_path(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue {
            path,
            value: Expr::Lit(ExprLit { lit: Lit::Str(file), .. }),
            ..
        }) if path.is_ident("path") => Some(file.value()),
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
