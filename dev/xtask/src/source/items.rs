//! The items of a file, and the meaning of the attributes above them.

use std::ops::RangeInclusive;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Attribute, Expr, ExprLit, ImplItemFn, Item, ItemFn, ItemMod, Lit, Meta, MetaNameValue,
    Signature, TraitItemFn, Visibility, visit,
};

use super::words::lines;

/// Items by kind, in tests too.
#[derive(Default)]
pub(super) struct Items {
    pub(super) functions: Vec<(String, RangeInclusive<usize>)>,
    /// Items that are `pub` without restriction: constants, functions, methods and types.
    pub(super) public: Vec<(String, usize)>,
    /// `use` declarations.
    pub(super) uses: Vec<RangeInclusive<usize>>,
    pub(super) tests: Vec<RangeInclusive<usize>>,
    pub(super) test_modules: Vec<String>,
    pub(super) test_files: Vec<String>,
}

impl Items {
    fn function(&mut self, signature: &Signature, body: Span) {
        let range = signature.span().start().line..=body.end().line;
        self.functions.push((signature.ident.to_string(), range));
    }

    fn note_public(&mut self, visibility: &Visibility, name: &Ident) {
        if matches!(visibility, Visibility::Public(_)) {
            self.public.push((name.unraw().to_string(), name.span().start().line));
        }
    }

    fn note_test(&mut self, attributes: &[Attribute], span: Span) {
        if is_test_only(attributes) {
            self.tests.push(lines(span));
        }
    }
}

impl<'a> Visit<'a> for Items {
    fn visit_item(&mut self, item: &'a Item) {
        self.note_test(of_item(item), item.span());
        match item {
            Item::Const(item) => self.note_public(&item.vis, &item.ident),
            Item::Enum(item) => self.note_public(&item.vis, &item.ident),
            Item::Fn(item) => self.note_public(&item.vis, &item.sig.ident),
            Item::Static(item) => self.note_public(&item.vis, &item.ident),
            Item::Struct(item) => self.note_public(&item.vis, &item.ident),
            Item::Trait(item) => self.note_public(&item.vis, &item.ident),
            Item::Type(item) => self.note_public(&item.vis, &item.ident),
            Item::Use(item) => self.uses.push(lines(item.span())),
            _ => {}
        }
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
        self.note_public(&function.vis, &function.sig.ident);
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

pub(super) fn forbids_unsafe(attribute: &Attribute) -> bool {
    attribute.path().is_ident("forbid")
        && attribute.meta.require_list().is_ok_and(|list| {
            list.tokens.to_string().split(',').any(|word| word.trim() == "unsafe_code")
        })
}

/// True for `#[test]`, and for a `#[cfg(…)]` that holds in tests only.
pub(super) fn is_test_only(attributes: &[Attribute]) -> bool {
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

/// The file of `#[path = "file"]`.
pub(super) fn explicit_path(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue {
            path,
            value: Expr::Lit(ExprLit { lit: Lit::Str(file), .. }),
            ..
        }) if path.is_ident("path") => Some(file.value()),
        _ => None,
    }
}

pub(super) fn of_item(item: &Item) -> &[Attribute] {
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
