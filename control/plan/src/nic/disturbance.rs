//! The side effects of a device's settings: facts of models, each with the driver's function.
//!
//! `attr "disturbs SETTING: EFFECT, … (SOURCE)"` at the node where packets enter.

use std::fmt;

/// A setting of a device that may disturb others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// `queues`: the number of queues (`ethtool -L`).
    Queues,
    /// `rings`: the length of rings (`-G`).
    Rings,
    /// `table`: the table and the key of the hash (`-X`).
    Table,
    /// `rules-on`: rules are switched on (`-K … ntuple on`).
    RulesOn,
    /// `rules-off`: rules are switched off.
    RulesOff,
    /// A feature by its name, in either direction (`-K`).
    Feature(String),
}

impl Touched {
    fn parse(word: &str) -> Option<Touched> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        match word {
            "queues" => Some(Touched::Queues),
            "rings" => Some(Touched::Rings),
            "table" => Some(Touched::Table),
            "rules-on" => Some(Touched::RulesOn),
            "rules-off" => Some(Touched::RulesOff),
            name if name.contains('-') && name.chars().all(is_name) => {
                Some(Touched::Feature(name.into()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Touched::Queues => f.write_str("`-L`"),
            Touched::Rings => f.write_str("`-G`"),
            Touched::Table => f.write_str("`-X`"),
            Touched::RulesOn => f.write_str("`-K ntuple on`"),
            Touched::RulesOff => f.write_str("`-K ntuple off`"),
            Touched::Feature(name) => write!(f, "`-K {name}`"),
        }
    }
}

/// One side effect of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `reopens`: the queues are closed and opened again.
    Reopens,
    /// `resets`: the device starts anew.
    Resets,
    /// `flushes`: all rules are gone.
    Flushes,
    /// `suspends`: rules are out of force until they are on again.
    Suspends,
    /// `table`: the hash's table may be another one.
    Table,
    /// `sizes`: the hash's table has two entries for each queue, rounded up to a power of two, and the model's at least;
    /// while a table is set, numbers that change its size are refused.
    Sizes,
    /// `arfs`: the kernel may make rules of its own for sockets from then on.
    Arfs,
    /// `atr`: the driver makes rules of its own for connections of this host from then on.
    Atr,
    /// `no-atr`: it ends that.
    NoAtr,
    /// `bare`: it is refused while there are rules.
    Bare,
    /// `refused`: the driver does not take it at all.
    Refused,
    /// `with NAME`: another feature is switched as well.
    With(String),
}

impl Effect {
    fn parse(word: &str) -> Option<Effect> {
        Some(match word {
            "reopens" => Effect::Reopens,
            "resets" => Effect::Resets,
            "flushes" => Effect::Flushes,
            "suspends" => Effect::Suspends,
            "table" => Effect::Table,
            "sizes" => Effect::Sizes,
            "arfs" => Effect::Arfs,
            "atr" => Effect::Atr,
            "no-atr" => Effect::NoAtr,
            "bare" => Effect::Bare,
            "refused" => Effect::Refused,
            _ => Effect::With(word.strip_prefix("with ")?.trim().into()),
        })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effect::Reopens => "reopens the queues, so that packets in flight are lost",
            Effect::Resets => {
                "resets the device, so that the link goes down and packets in flight are lost"
            }
            Effect::Flushes => "removes all rules, those of others, too",
            Effect::Suspends => "has all rules out of force",
            Effect::Table => "may change the table of the hash",
            Effect::Sizes => "may change the size of the table of the hash",
            Effect::Arfs => "lets the kernel make rules of its own for sockets (aRFS)",
            Effect::Atr => {
                "has the driver make rules of its own for connections of this host (ATR)"
            }
            Effect::NoAtr => "ends the driver's own rules (ATR)",
            Effect::Bare => "is refused while there are rules",
            Effect::Refused => "is not possible",
            Effect::With(name) => return write!(f, "switches `{name}` with it"),
        })
    }
}

/// What a setting disturbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// The setting.
    pub by: Touched,
    /// What it does to others; nothing if it disturbs nothing.
    pub effects: Vec<Effect>,
    /// The driver's function that says so.
    pub source: String,
}

impl Disturbance {
    /// Reads `SETTING: EFFECT, … (SOURCE)`.
    pub(super) fn parse(text: &str) -> Result<Disturbance, String> {
        let form = || format!("`{text}` is not of the form `queues: resets, table (function)`");
        let (setting, rest) = text.split_once(':').ok_or_else(form)?;
        let (effects, source) = rest.trim().split_once('(').ok_or_else(form)?;
        let source = source.strip_suffix(')').map(str::trim).filter(|s| !s.is_empty());
        let source = source.ok_or_else(form)?.to_string();
        let setting = setting.trim();
        let by = Touched::parse(setting).ok_or_else(|| {
            format!(
                "`{setting}` is no setting: there are queues, rings, table, rules-on, rules-off, and the names of \
                 features"
            )
        })?;
        let words = effects.split(',').map(str::trim).filter(|word| *word != "nothing");
        let effect = |word: &str| {
            Effect::parse(word).ok_or_else(|| format!("`{word}` is no effect of a setting"))
        };
        let effects = words.map(effect).collect::<Result<_, _>>()?;
        Ok(Disturbance { by, effects, source })
    }

    /// Whether it has this effect.
    pub fn has(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.by)?;
        match self.effects.split_last() {
            None => f.write_str("disturbs nothing")?,
            Some((last, [])) => write!(f, "{last}")?,
            Some((last, others)) => {
                let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                write!(f, "{}, and {last}", others.join(", "))?;
            }
        }
        write!(f, " ({})", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_and_told() {
        for (text, told) in [
            ("rx-vlan-hw-parse: nothing (f)", "`-K rx-vlan-hw-parse` disturbs nothing (f)"),
            (
                "rules-off: resets, flushes (i40e_set_ntuple)",
                "`-K ntuple off` resets the device, so that the link goes down and packets in flight are lost, and \
                 removes all rules, those of others, too (i40e_set_ntuple)",
            ),
            (
                "rx-vlan-hw-parse: with tx-vlan-hw-insert (g)",
                "`-K rx-vlan-hw-parse` switches `tx-vlan-hw-insert` with it (g)",
            ),
        ] {
            assert_eq!(Disturbance::parse(text).map(|d| d.to_string()), Ok(told.to_string()));
        }
        for (text, wrong) in [
            ("queues resets (f)", "form"),
            ("queues: resets", "form"),
            ("queues: resets ()", "form"),
            ("queue: resets (f)", "`queue` is no setting"),
            ("queues: explodes (f)", "`explodes` is no effect"),
            ("queues: (f)", "`` is no effect"),
        ] {
            let said = Disturbance::parse(text).expect_err(text);
            assert!(said.contains(wrong), "{text}: {said}");
        }
    }
}
