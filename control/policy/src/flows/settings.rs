//! The settings of a flow: `rate=12k class=hp app=web core=3 weight=2 name=x`.

use weever_plan::flow::Flow;
use weever_suggest::did_you_mean;

const KEYS: [&str; 6] = ["rate", "class", "app", "core", "weight", "name"];
/// The only word of pcap-filter that may look like a key.
const LENGTH: &str = "len";

/// The settings of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) rate: Option<u64>,
    pub(super) class: Option<String>,
    pub(super) app: Option<String>,
    pub(super) core: Option<u16>,
    pub(super) weight: Option<u32>,
    pub(super) name: Option<String>,
}

/// The fault of a setting, and its remedy.
pub(super) type SettingError = (String, Option<String>);

/// Whether a word is a setting rather than a part of an expression.
pub(super) fn is_setting(word: &str) -> bool {
    let Some((key, _)) = word.split_once('=') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !key.is_empty() && key.chars().all(plain) && key != LENGTH
}

impl Settings {
    /// Takes `key=value`.
    pub(super) fn take(&mut self, word: &str) -> Result<(), SettingError> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if value.is_empty() {
            return Err((format!("`{key}` has no value"), Some(format!("write `{key}=…`"))));
        }
        let taken = match key {
            "rate" => fill(&mut self.rate, rate(value)?),
            "class" => fill(&mut self.class, value.to_string()),
            "app" => fill(&mut self.app, value.to_string()),
            "core" => fill(&mut self.core, number(key, value)?),
            "weight" => fill(&mut self.weight, weight(number(key, value)?)?),
            "name" => fill(&mut self.name, value.to_string()),
            _ => {
                let known = || format!("settings are {}", KEYS.join(", "));
                let help = did_you_mean(key, KEYS).unwrap_or_else(known);
                return Err((format!("there is no setting `{key}`"), Some(help)));
            }
        };
        match taken {
            true => Ok(()),
            false => Err((format!("`{key}` is set twice"), None)),
        }
    }
}

/// False if it was full already.
fn fill<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, SettingError> {
    value.parse().map_err(|_| (format!("`{value}` is no value for `{key}`, a number"), None))
}

/// A weight that the planner can add up.
pub(super) fn weight(weight: u32) -> Result<u32, SettingError> {
    match weight {
        1..=Flow::MAX_WEIGHT => Ok(weight),
        _ => Err((format!("a weight lies between 1 and {}", Flow::MAX_WEIGHT), None)),
    }
}

/// A number, with `k`, `M` or `G` for thousands.
pub(super) fn rate(text: &str) -> Result<u64, SettingError> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let value = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    value.ok_or_else(|| {
        (format!("`{text}` is no rate"), Some("write a number, as `1500`, `12k` or `3M`".into()))
    })
}
