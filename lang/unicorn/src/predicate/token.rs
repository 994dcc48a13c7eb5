//! The words and signs of a predicate.

/// A piece of a predicate's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name, number, address, prefix or range.
    Word(&'t str),
    /// A quoted text, without its quotes.
    Quoted(&'t str),
    /// One of `( ) [ ] , ! & |` or a comparison.
    Sign(&'t str),
    /// Nothing is left.
    End,
}

const SIGNS: [&str; 17] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "=", "!", "&", "|", "(", ")", "[", "]", ","];

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '-')
}

/// The token at the start of `text`, and its length. A character that starts no token is a sign.
pub(super) fn first(text: &str) -> (Token<'_>, usize) {
    let Some(start) = text.chars().next() else { return (Token::End, 0) };
    if is_word(start) {
        let len = text.find(|c| !is_word(c)).unwrap_or(text.len());
        return (Token::Word(&text[..len]), len);
    }
    // pcap-filter's way to say that a word is a value, though it could be something else.
    if let Some(word) = text.strip_prefix('\\').filter(|rest| rest.starts_with(is_word)) {
        let len = word.find(|c| !is_word(c)).unwrap_or(word.len());
        return (Token::Word(&word[..len]), len + 1);
    }
    if start == '\''
        && let Some(len) = text[1..].find('\'')
    {
        return (Token::Quoted(&text[1..=len]), len + 2);
    }
    let sign = SIGNS.iter().find(|s| text.starts_with(**s));
    let len = sign.map_or(start.len_utf8(), |s| s.len());
    (Token::Sign(&text[..len]), len)
}
