//! Whether a value lies in a configuration space.

use super::ConfigType;

/// A value for a config node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A value of `Bool`.
    Bool(bool),
    /// A value of `Int`, `UInt` or `SInt`.
    Number(i128),
    /// A value of `UInt` that does not fit an `i128`.
    Large(u128),
    /// A value of `Enum`.
    Label(String),
    /// The absent value of `<T>`.
    Nothing,
    /// A value of `[T]` or `{T}`.
    List(Vec<Value>),
    /// A value of a product, in its order.
    Tuple(Vec<Value>),
    /// A value of a sum: the label of the member, and its value.
    Choice(String, Box<Value>),
    /// Of any type: a value that its holder cannot give. It is not checked.
    Unsaid,
}

/// The place and the reason of a value outside its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// Labels and indices that lead to the part, as `[3].queue`.
    pub path: String,
    /// The fault there.
    pub message: String,
}

impl std::fmt::Display for ValueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gap = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{gap}{}", self.path, self.message)
    }
}

impl std::error::Error for ValueError {}

impl ValueError {
    fn new(message: impl Into<String>) -> ValueError {
        ValueError { path: String::new(), message: message.into() }
    }

    fn within(mut self, step: &str) -> ValueError {
        self.path.insert_str(0, step);
        self
    }
}

impl ConfigType {
    /// Whether `value` is of this type.
    ///
    /// # Errors
    /// The first part that is not, and why.
    pub fn check(&self, value: &Value) -> Result<(), ValueError> {
        match (self, value) {
            (_, Value::Unsaid)
            | (ConfigType::Optional(_), Value::Nothing)
            | (ConfigType::Bool, Value::Bool(_)) => Ok(()),
            (ConfigType::Optional(inner), _) => inner.check(value),
            (ConfigType::Enum(labels), Value::Label(l)) if labels.contains(l) => Ok(()),
            (ConfigType::List { element, length, .. }, Value::List(values)) => {
                if !length.allows(values.len() as u64) {
                    let (len, bounds) = (values.len(), length.to_string());
                    let bounds = bounds.trim();
                    return Err(ValueError::new(format!("{len} elements, outside {bounds}")));
                }
                let check = |(i, v)| element.check(v).map_err(|e| e.within(&format!("[{i}]")));
                values.iter().enumerate().try_for_each(check)
            }
            (ConfigType::Product(members), Value::Tuple(values))
                if members.len() == values.len() =>
            {
                let check = |((label, ty), v): (&(String, ConfigType), &Value)| {
                    ty.check(v).map_err(|e| e.within(&format!(".{label}")))
                };
                members.iter().zip(values).try_for_each(check)
            }
            (ConfigType::Sum(members), Value::Choice(label, v)) => self.choice(members, label, v),
            _ => self.number(value),
        }
    }

    fn choice(
        &self,
        members: &[(String, ConfigType)],
        label: &str,
        value: &Value,
    ) -> Result<(), ValueError> {
        match members.iter().find(|(l, _)| l == label) {
            Some((_, ty)) => ty.check(value).map_err(|e| e.within(&format!(".{label}"))),
            None => Err(ValueError::new(format!("`{label}` is no member of {self}"))),
        }
    }

    fn number(&self, value: &Value) -> Result<(), ValueError> {
        let fits = match (self, value) {
            (ConfigType::Int { lo, hi }, Value::Number(n)) => {
                (i128::from(*lo)..=i128::from(*hi)).contains(n)
            }
            (ConfigType::UInt(bits), Value::Number(n)) => {
                *n >= 0 && (*bits >= 127 || *n < 1 << bits)
            }
            (ConfigType::UInt(bits), Value::Large(n)) => *bits == 128 || *n < 1 << bits,
            (ConfigType::SInt(bits), Value::Number(n)) => {
                let half = 1i128 << (bits - 1).min(126);
                *bits == 128 || (-half..half).contains(n)
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(ValueError::new(format!("{value} is not of type {self}"))) }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(b) => write!(f, "{b}"),
            Value::Number(n) => write!(f, "{n}"),
            Value::Large(n) => write!(f, "{n}"),
            Value::Label(l) => write!(f, "{l}"),
            Value::Nothing => f.write_str("nothing"),
            Value::List(v) => write!(f, "a list of {}", v.len()),
            Value::Tuple(v) => write!(f, "a tuple of {}", v.len()),
            Value::Choice(label, v) => write!(f, "{label}: {v}"),
            Value::Unsaid => f.write_str("anything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ty: &str, value: Value) -> Result<(), String> {
        ty.parse::<ConfigType>().unwrap().check(&value).map_err(|e| e.to_string())
    }

    #[test]
    fn numbers_stay_in_their_range() {
        assert!(check("Int 1 7", Value::Number(7)).is_ok());
        assert!(check("Int 1 7", Value::Number(8)).is_err());
        assert!(check("UInt 2", Value::Number(3)).is_ok());
        assert!(check("UInt 2", Value::Number(4)).is_err());
        assert!(check("UInt 2", Value::Number(-1)).is_err());
        assert!(check("SInt 2", Value::Number(-2)).is_ok());
        assert!(check("SInt 2", Value::Number(2)).is_err());
        assert!(check("UInt 128", Value::Large(u128::MAX)).is_ok());
        assert!(check("UInt 127", Value::Large(u128::MAX)).is_err());
    }

    #[test]
    fn an_error_names_the_part() {
        let row = |queue| Value::Tuple(vec![Value::Nothing, Value::Number(queue)]);
        let ty = "{(sip: <UInt 32>, queue: UInt 2)} <,2>";
        assert!(check(ty, Value::List(vec![row(0), row(3)])).is_ok());
        let bad = check(ty, Value::List(vec![row(0), row(4)])).unwrap_err();
        assert_eq!(bad, "[1].queue: 4 is not of type UInt 2");
        let long = check(ty, Value::List(vec![row(0); 3])).unwrap_err();
        assert_eq!(long, "3 elements, outside <,2>");
    }

    #[test]
    fn labels_sums_and_the_unsaid() {
        assert!(check("Enum (A,B)", Value::Label("B".into())).is_ok());
        assert!(check("Enum (A,B)", Value::Label("C".into())).is_err());
        assert!(check("Bool", Value::Nothing).is_err());
        assert!(check("(a: Bool)", Value::Tuple(vec![Value::Unsaid])).is_ok());
        let choose = |l: &str| Value::Choice(l.into(), Box::new(Value::Bool(true)));
        assert!(check("|<a: Bool>", choose("a")).is_ok());
        assert!(check("|<a: Bool>", choose("b")).is_err());
    }
}
