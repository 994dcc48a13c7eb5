//! Objectives: a name, a table with a limit, or an expression that adds several up.
//!
//! `"balance-rate"`, `{ pack = 50 }`, `"2 * balance-rate + pack(50)"`: terms are separated by `+`, each may have a
//! whole number and `*` in front, and limits stand in parentheses.

use weever_plan::policy::Objective;
use weever_suggest::did_you_mean;

use super::section::{Section, Value};

const NAMES: [&str; 4] = ["balance", "balance-rate", "pack", "pack-rate"];
/// The most terms of an expression.
const MAX_TERMS: usize = 16;
const MAX_FACTOR: u32 = 1_000_000;
const HELP: &str = "write terms as `balance`, `balance-rate`, `pack(50)` or `pack-rate(1000000)`, each with a number \
                    and `*` in front if it counts more, joined by `+`";

/// The objective of a class or of the policy, if it has one.
pub(super) fn objective(section: &mut Section<'_, '_, '_>) -> Option<Objective> {
    let value = section.get("objective")?;
    match (value.get_ref().as_str(), only_setting(value)) {
        (_, Some((key @ ("pack" | "pack-rate"), limit))) => {
            let limit = section.number(key, limit, 1..=i64::MAX)? as u64;
            Some(if key == "pack" { Objective::Pack(limit) } else { Objective::PackRate(limit) })
        }
        (Some(text), _) => match expression(text) {
            Ok(objective) => Some(objective),
            Err((message, help)) => {
                let message =
                    format!("`objective` of {} cannot be `{text}`: {message}", section.name);
                section.reader.wrong(&value.span(), message, help);
                None
            }
        },
        _ => {
            let example =
                "`\"balance\"`, `\"balance-rate\"`, `{ pack = 50 }` or `{ pack-rate = 1000000 }`";
            section.mistyped("objective", value, example);
            None
        }
    }
}

/// The only setting of a table, as `{ exclusive = 4 }`.
pub(super) fn only_setting<'d>(value: &'d Value<'d>) -> Option<(&'d str, &'d Value<'d>)> {
    let table = value.get_ref().as_table()?;
    let (key, inner) = table.iter().next().filter(|_| table.len() == 1)?;
    Some((key.get_ref().as_ref(), inner))
}

/// The fault of a term, and its remedy.
type TermError = (String, String);

fn wrong(message: String) -> TermError {
    (message, HELP.into())
}

/// A sum of terms; a single term without a factor stays as it is.
fn expression(text: &str) -> Result<Objective, TermError> {
    let mut terms = text.split('+').map(term).collect::<Result<Vec<_>, _>>()?;
    if terms.len() > MAX_TERMS {
        return Err(wrong(format!("there are more than {MAX_TERMS} terms")));
    }
    match terms.pop() {
        Some((1, only)) if terms.is_empty() => Ok(only),
        last => Ok(Objective::Sum(terms.into_iter().chain(last).collect())),
    }
}

fn term(text: &str) -> Result<(u32, Objective), TermError> {
    let (factor, rest) = match text.split_once('*') {
        None => (1, text),
        Some((factor, rest)) => {
            let number = factor.trim().parse().ok().filter(|n| (1..=MAX_FACTOR).contains(n));
            let wrong =
                || wrong(format!("`{}` is no factor from 1 to {MAX_FACTOR}", factor.trim()));
            (number.ok_or_else(wrong)?, rest)
        }
    };
    let rest = rest.trim();
    let (name, limit) = match rest.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((name, limit)) => (name.trim(), Some(limit.trim())),
        None => (rest, None),
    };
    let number = limit.and_then(|limit| limit.parse::<u64>().ok()).filter(|limit| *limit > 0);
    let objective = match (name, limit, number) {
        ("balance", None, _) => Objective::Balance,
        ("balance-rate", None, _) => Objective::BalanceRate,
        ("pack", Some(_), Some(limit)) => Objective::Pack(limit),
        ("pack-rate", Some(_), Some(limit)) => Objective::PackRate(limit),
        ("pack" | "pack-rate", ..) => return Err(wrong(format!("`{rest}` has no limit"))),
        ("balance" | "balance-rate", ..) => {
            return Err(wrong(format!("`{name}` has no limit in parentheses")));
        }
        _ => {
            let help = did_you_mean(name, NAMES).unwrap_or_else(|| HELP.into());
            return Err((format!("there is no objective `{name}`"), help));
        }
    };
    Ok((factor, objective))
}
