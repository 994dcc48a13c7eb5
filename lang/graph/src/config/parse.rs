//! Reading a configuration type. Comments count as white space, as everywhere in Unicorn.

use super::{ConfigType, Length};

/// Types nest no deeper than this.
const MAX_DEPTH: u32 = 64;

/// Why a text is not a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// The offset in the text, in bytes.
    pub at: usize,
    /// The fault.
    pub message: String,
}

impl std::fmt::Display for TypeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (at byte {} of the type)", self.message, self.at)
    }
}

impl std::error::Error for TypeError {}

impl std::str::FromStr for ConfigType {
    type Err = TypeError;
    fn from_str(text: &str) -> Result<ConfigType, TypeError> {
        let (ty, end) = ConfigType::parse_prefix(text)?;
        match text[end..].trim_start() {
            "" => Ok(ty),
            _ => Err(TypeError { at: end, message: "something follows the type".into() }),
        }
    }
}

impl ConfigType {
    /// Reads the type at the start of `text`; also returns its length in bytes.
    ///
    /// # Errors
    /// If no type starts there, or it nests deeper than 64 levels.
    pub fn parse_prefix(text: &str) -> Result<(ConfigType, usize), TypeError> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let ty = reader.ty()?;
        Ok((ty, reader.at))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, TypeError> {
        Err(TypeError { at: self.at, message: message.into() })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            let comment = if self.rest().starts_with("//") {
                self.rest().find('\n')
            } else if self.rest().starts_with("/*") {
                self.rest().find("*/").map(|end| end + 2)
            } else {
                return;
            };
            self.at += comment.unwrap_or(self.rest().len());
        }
    }

    /// Whether `symbol` is next; if so, it is taken.
    fn take(&mut self, symbol: &str) -> bool {
        let mut ahead = Reader { ..*self };
        ahead.skip_space();
        let found = ahead.rest().starts_with(symbol);
        if found {
            self.at = ahead.at + symbol.len();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), TypeError> {
        if self.take(symbol) {
            return Ok(());
        }
        self.skip_space();
        self.fail(format!("expected `{symbol}`"))
    }

    fn word(&mut self, what: &str) -> Result<&'a str, TypeError> {
        self.skip_space();
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if len == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.fail(format!("expected {what}"));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, TypeError> {
        self.skip_space();
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let sign = rest.len() - digits.len();
        let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()) + sign;
        match rest[..len].parse() {
            Ok(n) => {
                self.at += len;
                Ok(n)
            }
            Err(_) => self.fail(format!("expected {what}")),
        }
    }

    fn ty(&mut self) -> Result<ConfigType, TypeError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(format!("the type nests deeper than {MAX_DEPTH} levels"));
        }
        let ty = self.ty_at_depth()?;
        self.depth -= 1;
        Ok(ty)
    }

    fn ty_at_depth(&mut self) -> Result<ConfigType, TypeError> {
        if self.take("|<") {
            return Ok(ConfigType::Sum(self.members(">")?));
        }
        if self.take("(") {
            return Ok(ConfigType::Product(self.members(")")?));
        }
        if self.take("<") {
            let inner = Box::new(self.ty()?);
            self.expect(">")?;
            return Ok(ConfigType::Optional(inner));
        }
        if self.take("[") {
            return self.list(true, "]");
        }
        if self.take("{") {
            return self.list(false, "}");
        }
        self.named()
    }

    fn list(&mut self, ordered: bool, close: &str) -> Result<ConfigType, TypeError> {
        let element = Box::new(self.ty()?);
        self.expect(close)?;
        let length = if self.take("<") { self.length()? } else { Length::default() };
        Ok(ConfigType::List { ordered, element, length })
    }

    fn length(&mut self) -> Result<Length, TypeError> {
        let min = if self.take(",") { None } else { Some(self.number("a length")?) };
        if min.is_some() && self.take(">") {
            return Ok(Length { min, max: min });
        }
        if min.is_some() {
            self.expect(",")?;
        }
        if self.take(">") {
            return Ok(Length { min, max: None });
        }
        let start = self.at;
        let most = self.number("a length")?;
        if let Some(least) = min.filter(|least| *least > most) {
            self.at = start;
            return self.fail(format!("no length lies between {least} and {most}"));
        }
        self.expect(">")?;
        Ok(Length { min, max: Some(most) })
    }

    fn members(&mut self, close: &str) -> Result<Vec<(String, ConfigType)>, TypeError> {
        let mut members = Vec::new();
        while !self.take(close) {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let label = self.word("a label")?.to_string();
            self.expect(":")?;
            members.push((label, self.ty()?));
        }
        Ok(members)
    }

    fn named(&mut self) -> Result<ConfigType, TypeError> {
        self.skip_space();
        let start = self.at;
        let name = self.word("a type")?;
        // Dragonet's own graphs write `UInt64` for `UInt 64`.
        let glued = |prefix: &str| {
            let digits = name.strip_prefix(prefix).filter(|d| !d.is_empty());
            digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()))
        };
        if glued("UInt") || glued("SInt") {
            self.at = start + 4;
        }
        match &name[..name.len().min(self.at - start)] {
            "Bool" => Ok(ConfigType::Bool),
            "Int" => self.interval(),
            "UInt" => Ok(ConfigType::UInt(self.bits()?)),
            "SInt" => Ok(ConfigType::SInt(self.bits()?)),
            "Enum" => self.labels(),
            other => {
                self.at = start;
                self.fail(format!(
                    "`{other}` is no type; types are Bool, Int, UInt, SInt, Enum, <T>, [T], {{T}}, \
                     (a: T) and |<a: T>"
                ))
            }
        }
    }

    fn interval(&mut self) -> Result<ConfigType, TypeError> {
        let (lo, hi) = (self.number("the smallest value")?, self.number("the largest value")?);
        if lo > hi {
            return self.fail(format!("no integer lies between {lo} and {hi}"));
        }
        Ok(ConfigType::Int { lo, hi })
    }

    fn bits(&mut self) -> Result<u32, TypeError> {
        match self.number("a number of bits")? {
            bits @ 1..=128 => Ok(bits),
            bits => self.fail(format!("{bits} bits; 1 to 128 are possible")),
        }
    }

    fn labels(&mut self) -> Result<ConfigType, TypeError> {
        self.expect("(")?;
        let mut labels = vec![self.word("a label")?.to_string()];
        while self.take(",") {
            labels.push(self.word("a label")?.to_string());
        }
        self.expect(")")?;
        Ok(ConfigType::Enum(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let ty: ConfigType = text.parse().unwrap();
        let printed = ty.to_string();
        assert_eq!(printed.parse::<ConfigType>().unwrap(), ty);
        printed
    }

    #[test]
    fn every_form_of_tables_2_1_and_2_2_round_trips() {
        for text in [
            "Bool",
            "Int -3 7",
            "UInt 2",
            "SInt 16",
            "Enum (TCP,UDP)",
            "<UInt 32>",
            "[Bool]",
            "[Bool] <1,2>",
            "{Bool} <1,>",
            "{Bool} <,128>",
            "[<UInt 1>] <4>",
            "(a: Bool, b: <Int 1 7>)",
            "|<a: Bool, b: {UInt 8}>",
        ] {
            assert_eq!(canonical(text), text);
        }
    }

    #[test]
    fn glued_widths_comments_and_spacing_are_accepted() {
        assert_eq!(
            canonical(" { ( id:UInt64 , /* c */ q : <UInt 2> ) } < , 128 >"),
            "{(id: UInt 64, q: <UInt 2>)} <,128>"
        );
    }

    #[test]
    fn a_prefix_ends_before_what_follows() {
        let text = "{ UInt 2 } function f";
        assert_eq!(ConfigType::parse_prefix(text).unwrap().1, "{ UInt 2 }".len());
    }

    #[test]
    fn errors_say_where() {
        let error = "(a: Bolo)".parse::<ConfigType>().unwrap_err();
        assert_eq!(error.at, 4);
        let error = "[Bool]<9,2>".parse::<ConfigType>().unwrap_err();
        assert_eq!((error.at, &error.message[..]), (9, "no length lies between 9 and 2"));
        for bad in [
            "",
            "Int 7 1",
            "UInt 0",
            "UInt 129",
            "[Bool",
            "[Bool]<9,2>",
            "{UInt 2} <-1,2>",
            "Enum ()",
            "Int 1",
            "(a Bool)",
            "<",
            "|<",
            "Bool Bool",
            "Intx 1 2",
        ] {
            assert!(bad.parse::<ConfigType>().is_err(), "{bad}");
        }
        assert!("<".repeat(10_000).parse::<ConfigType>().is_err());
    }
}
