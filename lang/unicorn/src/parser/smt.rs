//! SMT-LIB bodies are kept as text; only their parentheses are checked.

/// Whether every parenthesis has a partner; if not, where the first one without is.
pub(super) fn balanced(script: &str) -> Result<(), usize> {
    let mut open = Vec::new();
    let mut quote: Option<u8> = None;
    for (at, byte) in script.bytes().enumerate() {
        match (quote, byte) {
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'|') => quote = Some(byte),
            (None, b';') => quote = Some(b'\n'),
            (None, b'(') => open.push(at),
            (None, b')') => {
                open.pop().ok_or(at)?;
            }
            (None, _) => {}
        }
    }
    open.first().map_or(Ok(()), |at| Err(*at))
}

/// The text without surrounding white space and without the indentation its lines share.
pub(super) fn dedent(script: &str) -> String {
    let own_first_line = script.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
    let mut lines: Vec<&str> = script.lines().map(str::trim_end).collect();
    if !own_first_line && let Some(first) = lines.first_mut() {
        *first = first.trim_start();
    }
    let from = lines.iter().position(|l| !l.is_empty()).unwrap_or(lines.len());
    let until = lines.iter().rposition(|l| !l.is_empty()).map_or(from, |last| last + 1);
    let lines = &lines[from..until];
    let shared = shared_indent(lines, own_first_line || from > 0);
    let cut = |line: &&str| line.chars().skip(indent(line).min(shared)).collect::<String>();
    lines.iter().map(cut).collect::<Vec<_>>().join("\n")
}

fn shared_indent(lines: &[&str], first_counts: bool) -> usize {
    let counted = lines.iter().skip(usize::from(!first_counts)).filter(|l| !l.is_empty());
    counted.map(|l| indent(l)).min().unwrap_or(0)
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_outside_quotes_and_comments_have_partners() {
        assert_eq!(balanced("(= |(| \")\") ; )\n"), Ok(()));
        assert_eq!(balanced("(a (b)"), Err(0));
        assert_eq!(balanced("a)"), Err(1));
    }

    #[test]
    fn shared_indentation_is_cut() {
        assert_eq!(dedent(" (= a b) "), "(= a b)");
        assert_eq!(dedent("\n    (a\n      b)\n\n    (c)\n  "), "(a\n  b)\n\n(c)");
        assert_eq!(dedent("(a\n      b)"), "(a\nb)");
        assert_eq!(dedent("  \n "), "");
    }
}
