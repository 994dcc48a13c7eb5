//! Configuration spaces: which values a config node accepts (Dragonet thesis §2.2.5, tables 2.1
//! and 2.2).

mod check;
mod parse;

pub use check::{Value, ValueError};
pub use parse::TypeError;

/// The type of a config node's value. Its text form is Unicorn's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// `Bool`.
    Bool,
    /// `Int lo hi`: an integer between two bounds, both inclusive.
    Int {
        /// Smallest.
        lo: i64,
        /// Largest.
        hi: i64,
    },
    /// `UInt bits`, up to 128 of them.
    UInt(u32),
    /// `SInt bits`, two's complement, up to 128 of them.
    SInt(u32),
    /// `Enum (A,B)`.
    Enum(Vec<String>),
    /// `<T>`: a `T` or nothing, as in a wildcard.
    Optional(Box<ConfigType>),
    /// `[T]` when the order counts, `{T}` when it does not; each may carry a length.
    List {
        /// Whether the order counts.
        ordered: bool,
        /// The type of each element.
        element: Box<ConfigType>,
        /// The allowed number of elements.
        length: Length,
    },
    /// `(a: T, b: T)`: all members. The labels inform the reader.
    Product(Vec<(String, ConfigType)>),
    /// `|<a: T, b: T>`: one of the members.
    Sum(Vec<(String, ConfigType)>),
}

/// Bounds on a list's length, both inclusive: `<l,u>`, `<l,>`, `<,u>`, `<x>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// The least length.
    pub min: Option<u64>,
    /// The greatest length.
    pub max: Option<u64>,
}

impl Length {
    /// Whether `len` lies within the bounds.
    pub fn allows(self, len: u64) -> bool {
        self.min.is_none_or(|min| min <= len) && self.max.is_none_or(|max| len <= max)
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (None, None) => Ok(()),
            (Some(l), Some(u)) if l == u => write!(f, " <{l}>"),
            (min, max) => {
                f.write_str(" <")?;
                min.map_or(Ok(()), |l| write!(f, "{l}"))?;
                f.write_str(",")?;
                max.map_or(Ok(()), |u| write!(f, "{u}"))?;
                f.write_str(">")
            }
        }
    }
}

impl std::fmt::Display for ConfigType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigType::Bool => f.write_str("Bool"),
            ConfigType::Int { lo, hi } => write!(f, "Int {lo} {hi}"),
            ConfigType::UInt(bits) => write!(f, "UInt {bits}"),
            ConfigType::SInt(bits) => write!(f, "SInt {bits}"),
            ConfigType::Enum(labels) => write!(f, "Enum ({})", labels.join(",")),
            ConfigType::Optional(inner) => write!(f, "<{inner}>"),
            ConfigType::List { ordered: true, element, length } => write!(f, "[{element}]{length}"),
            ConfigType::List { element, length, .. } => write!(f, "{{{element}}}{length}"),
            ConfigType::Product(members) => write!(f, "({})", Members(members)),
            ConfigType::Sum(members) => write!(f, "|<{}>", Members(members)),
        }
    }
}

struct Members<'a>(&'a [(String, ConfigType)]);

impl std::fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (label, ty)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{label}: {ty}")?;
        }
        Ok(())
    }
}
