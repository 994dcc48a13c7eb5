//! Unicorn, the language of protocol graphs (Dragonet thesis §2.2.5 and §2.3.2, with weever's
//! additions; `docs/unicorn.md`).
//!
//! [`load`] goes the whole way from text to a [`Graph`](weever_graph::Graph); [`parse`],
//! [`lower`], [`print()`] and [`render`] are its parts. [`show`] lists a graph for people.
#![forbid(unsafe_code)]

pub mod ast;
pub mod predicate;

mod comments;
mod diagnostic;
mod load;
mod lower;
mod parser;
mod print;
mod render;
mod show;
mod token;

pub use ast::Ast;
pub use diagnostic::{Diagnostic, has_errors};
pub use load::{Errors, Loaded, load};
pub use lower::lower;
pub use parser::parse;
pub use print::print;
pub use render::{render, render_styled};
pub use show::{condition, show, show_with};
