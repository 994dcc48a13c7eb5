//! Text in a picture: how wide it is, and how it is written.

/// How wide `text` is at `size`, in the same unit; a little more than in the usual sans-serif
/// fonts, since the viewer's font is unknown.
pub(super) fn width(text: &str, size: f64) -> f64 {
    const SLACK: f64 = 1.08;
    text.chars().map(advance).sum::<f64>() * size * SLACK
}

fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.27,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '[' | ']' | '/' | '-' => 0.34,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.84,
        'A'..='Z' => 0.68,
        '\0'..='\u{7f}' => 0.56,
        _ => 1.0,
    }
}

/// `text`, cut to at most `most` characters.
pub(super) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.into(),
    }
}

/// `text` as content or attribute of an element. Characters that no XML may have are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A count for people, short: `950`, `12.3k`, `4.56M`.
pub(super) fn short(n: u64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match (unit, value) {
        (0, _) => n.to_string(),
        (_, v) if v < 9.995 => format!("{v:.2}{}", UNITS[unit]),
        (_, v) if v < 99.95 => format!("{v:.1}{}", UNITS[unit]),
        (_, v) => format!("{v:.0}{}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short_and_round_over() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.00k"),
            (9_994, "9.99k"),
            (12_345, "12.3k"),
            (999_600, "1.00M"),
            (123_456_789, "123M"),
        ] {
            assert_eq!(short(n), text, "{n}");
        }
        assert_eq!(short(u64::MAX), "18.4E");
    }

    #[test]
    fn long_text_is_clipped_and_markup_is_text() {
        assert_eq!((clipped("abcdef", 4), clipped("äöü", 3)), ("abc…".into(), "äöü".into()));
        assert_eq!(escaped("<a b=\"&\">\u{1}"), "&lt;a b=&quot;&amp;&quot;&gt;\u{fffd}");
    }
}
