//! The items of a file: functions, tests, and public items.

use std::ops::RangeInclusive;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, ItemMod, Signature, TraitItemFn, Visibility};

use super::attributes::{explicit_path, is_test_only, of_item};
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
