//! The look of a picture: colours for light and dark surroundings, and how wide text is and how it is
//! written. No custom properties, which many programs that show SVG do not support.

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

/// How many colours clusters take in turn.
pub(super) const TINTS: usize = 8;

/// The style sheet.
pub(super) const STYLE: &str = r#"
text{font-family:Inter,"Helvetica Neue",Helvetica,Arial,"Liberation Sans",sans-serif;fill:#1b2130}
.bg{fill:#fbfcfe}
.title{font-size:20px;font-weight:650}
.sub,.key{font-size:11px;fill:#667085}
.c rect{fill-opacity:.055;stroke-opacity:.38;stroke-width:1}
.cl{font-size:12px;font-weight:650;letter-spacing:.02em;stroke:#fbfcfe;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.k0{fill:#3b76d6;stroke:#3b76d6}.k1{fill:#0e9384;stroke:#0e9384}.k2{fill:#8a63d2;stroke:#8a63d2}.k3{fill:#d4791c;stroke:#d4791c}
.k4{fill:#c8468f;stroke:#c8468f}.k5{fill:#4d9a2f;stroke:#4d9a2f}.k6{fill:#2397b8;stroke:#2397b8}.k7{fill:#a8812a;stroke:#a8812a}
.cl.k0,.cl.k1,.cl.k2,.cl.k3,.cl.k4,.cl.k5,.cl.k6,.cl.k7{stroke:#fbfcfe}
.b{fill:#fff;stroke:#b6bfcd;stroke-width:1}
.O .b{fill:#fff7e0;stroke:#e0b34a}
.T .b{fill:#e8f1ff;stroke:#6f9fe8}
.C .b{fill:#fdeef5;stroke:#e08ab5;stroke-dasharray:5 3}
.G .b{fill:#eef3fb;stroke:#7d8fb0;stroke-width:2}
.G .nm{font-weight:700}
.top{fill:none;stroke:#6f9fe8}
.nm{font-size:11px;font-weight:600;text-anchor:middle}
.ln{font-size:9px;fill:#667085;text-anchor:middle}
.bd{fill:#e0b34a}.bt{font-size:9px;font-weight:700;fill:#fff;text-anchor:middle}
.in{fill:#12805c}.outm{fill:#3b76d6}
.p rect{fill:#eef1f6}.p text{font-size:9px;fill:#4a5568;text-anchor:middle}
.p .ct{font-weight:650}
.p.t rect{fill:#e2f5ec}.p.t text{fill:#0f6b4d}
.p.f rect{fill:#fdeae7}.p.f text{fill:#b23a2f}
.p.s rect{fill:#f1eafd;stroke:#7a4fd0;stroke-dasharray:3 2;stroke-width:.8}.p.s text{fill:#6438bd}
.p.n rect{fill:#fdf1de;stroke:#c2780c;stroke-dasharray:1 2;stroke-width:1}.p.n text{fill:#96590a}
.g{stroke:#d0453a;stroke-width:1.3;fill:none;stroke-linecap:round}
.e path{fill:none;stroke-width:1.3;stroke:#7f8ea8}
.e.t path{stroke:#1d9a70}.e.f path{stroke:#dc6257}
.e.s path{stroke:#7a4fd0;stroke-dasharray:6 4}.e.n path{stroke:#c2780c;stroke-dasharray:1.5 4;stroke-linecap:round}
.e.i path{opacity:.3}
.e:hover path{stroke-width:4px;opacity:1}
#o path{fill:#7f8ea8}#t path{fill:#1d9a70}#f path{fill:#dc6257}#s path{fill:#7a4fd0}#n path{fill:#c2780c}
@media (prefers-color-scheme:dark){
text{fill:#e6e9f0}
.bg{fill:#0f131a}
.sub,.key{fill:#98a2b3}
.c rect{fill-opacity:.1;stroke-opacity:.45}
.cl,.cl.k0,.cl.k1,.cl.k2,.cl.k3,.cl.k4,.cl.k5,.cl.k6,.cl.k7{stroke:#0f131a}
.b{fill:#1a202c;stroke:#465266}
.O .b{fill:#2b2413;stroke:#a9822c}
.T .b{fill:#16253d;stroke:#4f7fca}
.C .b{fill:#311b27;stroke:#b35f88}
.G .b{fill:#1c2534;stroke:#6b7fa3}
.top{stroke:#4f7fca}
.ln{fill:#98a2b3}
.bd{fill:#a9822c}.bt{fill:#14161b}
.in{fill:#3fc08f}.outm{fill:#6ea0f5}
.p rect{fill:#2a3240}.p text{fill:#b9c3d3}
.p.t rect{fill:#143529}.p.t text{fill:#6fd6ab}
.p.f rect{fill:#3d1f1d}.p.f text{fill:#f59c93}
.p.s rect{fill:#2a2140;stroke:#a98af0}.p.s text{fill:#c6b0f8}
.p.n rect{fill:#33260f;stroke:#dda24a}.p.n text{fill:#ecc27f}
.g{stroke:#f2766b}
.e path{stroke:#8292ad}
.e.t path{stroke:#37b283}.e.f path{stroke:#e8786d}
.e.s path{stroke:#a98af0}.e.n path{stroke:#dda24a}
#o path{fill:#8292ad}#t path{fill:#37b283}#f path{fill:#e8786d}#s path{fill:#a98af0}#n path{fill:#dda24a}
}
"#;

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
