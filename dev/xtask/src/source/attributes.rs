//! The meaning of attributes for the item below them.

use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, MetaNameValue};

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
