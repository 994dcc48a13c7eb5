//! The names that a file defines, imports and mentions, module by module.
//!
//! Code for tests is left out: references between tests are no architecture.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, ItemUse, Macro, UseTree, VisRestricted, Visibility};

use super::items::{explicit_path, is_test_only, of_item};

/// One module of a file: the file's own, or one that it writes inline.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Names of the inline modules around it, from the file's own inwards.
    pub(crate) path: Vec<String>,
    /// `mod x;`
    pub(crate) files: Vec<ModuleFile>,
    /// Items that are defined here.
    pub(crate) definitions: BTreeSet<String>,
    /// `use` declarations, one entry a name.
    pub(crate) imports: Vec<Import>,
    /// Paths in the code, as written: `crate::a::B`, `b::c`, `D`.
    pub(crate) mentions: BTreeSet<Vec<String>>,
}

/// A module that lies in a file of its own.
#[derive(Debug)]
pub(crate) struct ModuleFile {
    pub(crate) name: String,
    /// The file of `#[path = "…"]`.
    pub(crate) place: Option<String>,
}

/// One name of a `use` declaration.
#[derive(Debug)]
pub(crate) struct Import {
    /// The full path as written; for a glob, the path before the `*`.
    pub(crate) path: Vec<String>,
    /// The name it has here; none for a glob.
    pub(crate) name: Option<String>,
    /// It is passed on to others (`pub use`).
    pub(crate) exported: bool,
}

/// Reads the modules of a file.
pub(super) fn scopes(file: &syn::File) -> Vec<Scope> {
    let mut reader = Reader { done: Vec::new(), open: vec![Scope::default()] };
    reader.visit_file(file);
    let Reader { mut done, mut open } = reader;
    done.append(&mut open);
    done
}

struct Reader {
    done: Vec<Scope>,
    /// The module that is being read, last, and those around it.
    open: Vec<Scope>,
}

impl Reader {
    fn scope(&mut self) -> &mut Scope {
        self.open.last_mut().expect("the file's own module stays open to the end")
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => return,
            },
            _ => return,
        };
        let name = name.unraw().to_string();
        self.scope().definitions.insert(name);
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test_only(of_item(item)) {
            return;
        }
        self.define(item);
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let tests = matches!(item, ImplItem::Fn(function) if is_test_only(&function.attrs));
        if !tests {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        let name = module.ident.unraw().to_string();
        let Some((_, items)) = &module.content else {
            let place = module.attrs.iter().find_map(explicit_path);
            self.scope().files.push(ModuleFile { name, place });
            return;
        };
        let mut path = self.scope().path.clone();
        path.push(name);
        self.open.push(Scope { path, ..Scope::default() });
        items.iter().for_each(|item| self.visit_item(item));
        self.done.extend(self.open.pop());
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        if item.leading_colon.is_none() {
            let mut imports = Vec::new();
            flatten(&item.tree, &mut Vec::new(), exported, &mut imports);
            self.scope().imports.append(&mut imports);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|segment| segment.ident.unraw().to_string());
            let names = names.collect();
            self.scope().mentions.insert(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'a Macro) {
        self.visit_path(&invocation.path);
        let mut paths = Vec::new();
        paths_in_tokens(invocation.tokens.clone(), &mut paths);
        self.scope().mentions.extend(paths);
    }

    // Neither names an item: `#[serde(…)]`, `pub(in crate::a)`.
    fn visit_attribute(&mut self, _: &'a Attribute) {}
    fn visit_vis_restricted(&mut self, _: &'a VisRestricted) {}
}

/// Turns `a::{b, c as d, e::*}` into one import a name.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, exported: bool, imports: &mut Vec<Import>) {
    let path_to = |last: &syn::Ident, prefix: &[String]| {
        let mut path = prefix.to_vec();
        if last != "self" || prefix.is_empty() {
            path.push(last.unraw().to_string());
        }
        path
    };
    match tree {
        UseTree::Path(step) => {
            prefix.push(step.ident.unraw().to_string());
            flatten(&step.tree, prefix, exported, imports);
            prefix.pop();
        }
        UseTree::Name(name) => {
            let path = path_to(&name.ident, prefix);
            let name = path.last().cloned();
            imports.push(Import { path, name, exported });
        }
        UseTree::Rename(rename) => {
            let path = path_to(&rename.ident, prefix);
            let name = Some(rename.rename.unraw().to_string());
            imports.push(Import { path, name, exported });
        }
        UseTree::Glob(_) => {
            imports.push(Import { path: prefix.clone(), name: None, exported });
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, prefix, exported, imports));
        }
    }
}

/// Every `a::b::c` and every single name of a macro's arguments, which have no structure.
fn paths_in_tokens(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 && !path.is_empty() {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(name.unraw().to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                if !path.is_empty() {
                    paths.push(std::mem::take(&mut path));
                }
                colons = 0;
                if let TokenTree::Group(group) = other {
                    paths_in_tokens(group.stream(), paths);
                }
            }
        }
    }
    if !path.is_empty() {
        paths.push(path);
    }
}
