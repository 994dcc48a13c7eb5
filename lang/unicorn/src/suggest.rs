//! "Did you mean …": the known word closest to an unknown one.

/// The candidate closest to `word`, if one is close enough to be meant.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 4);
    let near = |c: &'a str| {
        let distance = if c.eq_ignore_ascii_case(word) { 0 } else { distance(word, c, limit)? };
        (c != word).then_some((distance, c))
    };
    candidates.into_iter().filter_map(near).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// "did you mean `…`?" for the closest candidate.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    closest(word, candidates).map(|c| format!("did you mean `{c}`?"))
}

/// Edits that turn `a` into `b` (insert, delete, replace, swap neighbours), if at most `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    // The work is the product of the lengths, and source text may hold words of any length.
    if a.len().max(b.len()) > 128 {
        return None;
    }
    Some(strsim::osa_distance(a, b)).filter(|d| *d <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_within_a_third_of_its_length() {
        assert_eq!(closest("prot", ["port", "spawn"]), Some("port"));
        assert_eq!(closest("Clasify", ["Classify", "Classified"]), Some("Classify"));
        assert_eq!(closest("rxqueue", ["RxQueue"]), Some("RxQueue"));
        assert_eq!(closest("xyz", ["port", "spawn"]), None);
        assert_eq!(closest("port", ["port"]), None);
    }
}
