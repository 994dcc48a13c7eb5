//! Comparisons of a field: `= value`, `& mask = value`, `<= other.field`, `in lo-hi`, `in ours`.

use weever_graph::{Field, Predicate, Relation, Set};
use weever_suggest::did_you_mean;

use super::parse::{ParseResult, Parser};
use super::token::Token;
use super::{fields, labels, services};

impl Parser<'_> {
    /// The part after a field: `[& mask] OP value`, `OP field`, `in lo-hi` or `in SET`.
    pub(super) fn comparison(&mut self, field: Field) -> ParseResult {
        if self.take_word("in") {
            return match self.set() {
                Some(set) => Ok(Predicate::Member { field, set }),
                None => self.range(field),
            };
        }
        let mask = if self.take(Token::Sign("&")) { Some(self.number(field)?) } else { None };
        let Token::Sign(sign @ ("=" | "==" | "!=" | "<" | "<=" | ">" | ">=")) = self.peek() else {
            return self.fail("expected a comparison, as `=` or `in`");
        };
        self.next();
        if let Some(other) = self.other_field() {
            return match mask {
                None => Ok(with_field(field, sign, other)),
                Some(_) => self.fail("a mask cannot be combined with a second field"),
            };
        }
        let (prefix, value) = self.number_or_prefix(field)?;
        let mask = mask.or(prefix);
        self.compared(field, mask, sign, value)
    }

    fn compared(&self, field: Field, mask: Option<u128>, sign: &str, value: u128) -> ParseResult {
        let full = field.full_mask();
        let range = |lo: u128, hi: u128| Predicate::Range { field, lo, hi };
        Ok(match (sign, mask) {
            ("=" | "==", mask) => equal(field, mask.unwrap_or(full), value),
            ("!=", mask) => differs(field, mask.unwrap_or(full), value),
            (_, Some(_)) => return self.fail(format!("`{sign}` cannot be combined with a mask")),
            ("<", _) if value == 0 => Predicate::False,
            ("<", _) => range(0, value - 1),
            ("<=", _) => range(0, value),
            (">", _) if value == full => Predicate::False,
            (">", _) => range(value + 1, full),
            _ => range(value, full),
        })
    }

    /// The name of a set, if one follows.
    fn set(&mut self) -> Option<Set> {
        let Token::Word(word) = self.peek() else { return None };
        let set = Set::ALL.into_iter().find(|set| set.name() == word)?;
        self.next();
        Some(set)
    }

    /// The name of a field, if one follows.
    fn other_field(&mut self) -> Option<Field> {
        let Token::Word(word) = self.peek() else { return None };
        let field = fields::field_called(word)?;
        self.next();
        Some(field)
    }

    fn range(&mut self, field: Field) -> ParseResult {
        let at = self.clone();
        let Token::Word(word) = self.next() else { return at.fail("expected a range, as `1-9`") };
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(['-', ':', '.']) {
            let names = Set::ALL.map(Set::name);
            let known = format!("the sets are {}", names.join(", "));
            let help = did_you_mean(word, names).unwrap_or(known);
            return at.fail_with(format!("`{word}` is no set and no range"), &help);
        }
        let bounds = word.split_once('-');
        let values = bounds.and_then(|(lo, hi)| Some((fields::value(lo)?, fields::value(hi)?)));
        match values {
            Some((lo, hi)) if lo <= hi && hi <= field.full_mask() => {
                Ok(Predicate::Range { field, lo, hi })
            }
            Some(_) => at.fail(format!("`{word}` is no range of a {}-bit field", field.bits())),
            None => at.fail("expected a range, as `1-9`"),
        }
    }

    /// A value that fits the field.
    pub(super) fn number(&mut self, field: Field) -> ParseResult<u128> {
        match self.number_or_prefix(field)? {
            (None, value) => Ok(value),
            _ => self.fail("a prefix cannot stand here"),
        }
    }

    /// `tcp-syn|tcp-ack)`: the bits of all of them.
    fn alternatives(&mut self, field: Field) -> ParseResult<u128> {
        let mut bits = self.number(field)?;
        while self.take(Token::Sign("|")) {
            bits |= self.number(field)?;
        }
        self.expect(")")?;
        Ok(bits)
    }

    /// Whether `|tcp-FLAG` follows.
    fn another_flag(&self) -> bool {
        let mut ahead = self.clone();
        let flag = |word: &str| named(Field::TcpFlags, word).is_some();
        ahead.take(Token::Sign("|")) && matches!(ahead.next(), Token::Word(word) if flag(word))
    }

    /// A value that fits the field, and the mask if a prefix length follows it. Bits behind the
    /// prefix are cleared.
    pub(super) fn number_or_prefix(&mut self, field: Field) -> ParseResult<(Option<u128>, u128)> {
        let at = self.clone();
        if self.take(Token::Sign("(")) {
            return self.alternatives(field).map(|value| (None, value));
        }
        let Token::Word(word) = self.next() else { return at.fail("expected a value") };
        let (value, length) = match word.split_once('/') {
            Some((value, length)) => (value, Some(length)),
            None => (word, None),
        };
        let value = fields::value(value).or_else(|| named(field, value));
        let Some(mut value) = value.filter(|v| *v <= field.full_mask()) else {
            let (bits, name) = (field.bits(), fields::field_name(field));
            let said = format!("`{word}` is no value of {name}, which has {bits} bits");
            let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic());
            return match matches!(field, Field::L4Src | Field::L4Dst) && is_name {
                true => at.fail_with(said, &service_help(word)),
                false => at.fail(said),
            };
        };
        // `tcp-syn|tcp-ack`, as libpcap has it without parentheses.
        while field == Field::TcpFlags && self.another_flag() {
            self.next();
            value |= self.number(field)?;
        }
        let mask = length.map(|l| l.parse().ok().and_then(|l| fields::prefix_mask(field, l)));
        match mask {
            Some(None) => at.fail(format!("`{word}` has no valid prefix length")),
            mask => Ok((mask.flatten(), value & mask.flatten().unwrap_or(u128::MAX))),
        }
    }
}

fn equal(field: Field, mask: u128, value: u128) -> Predicate {
    if value & !mask != 0 { Predicate::False } else { fields::masked(field, mask, value) }
}

/// `!=` of a masked field. The field must be there: otherwise the packet does not match.
fn differs(field: Field, mask: u128, value: u128) -> Predicate {
    let there = fields::masked(field, 0, 0);
    let same = equal(field, mask, value);
    Predicate::And(vec![there, Predicate::Not(Box::new(same))])
}

/// Field with field. Both must be there: otherwise the packet does not match.
fn with_field(left: Field, sign: &str, right: Field) -> Predicate {
    let test = |left, relation, right| Predicate::Compare { left, relation, right };
    match sign {
        "=" | "==" => test(left, Relation::Equal, right),
        "<" => test(left, Relation::Less, right),
        "<=" => test(left, Relation::AtMost, right),
        ">" => test(right, Relation::Less, left),
        ">=" => test(right, Relation::AtMost, left),
        _ => {
            let there = |field| fields::masked(field, 0, 0);
            let same = Predicate::Not(Box::new(test(left, Relation::Equal, right)));
            Predicate::And(vec![there(left), there(right), same])
        }
    }
}

/// The names of services are a list of ours.
fn service_help(word: &str) -> String {
    let plain = || "that service's name is not among those that are known: write its number".into();
    did_you_mean(word, services::names()).unwrap_or_else(plain)
}

fn named(field: Field, name: &str) -> Option<u128> {
    let flag = |name: &str| {
        let flags = ["fin", "syn", "rst", "push", "ack", "urg", "ece", "cwr"];
        let short = name.strip_prefix("tcp-")?;
        flags.iter().position(|f| *f == short).map(|bit| 1 << bit)
    };
    match field {
        Field::Ip4Proto | Field::Ip6Next | Field::IpUpper => labels::protocol(name),
        Field::TcpFlags => flag(name),
        Field::IcmpType => labels::icmp_type(name),
        Field::L4Src | Field::L4Dst => services::port(name),
        Field::EthType => match name {
            "ip" => Some(labels::ETH_IP4),
            "arp" => Some(labels::ETH_ARP),
            "ip6" => Some(labels::ETH_IP6),
            _ => None,
        },
        _ => None,
    }
}
