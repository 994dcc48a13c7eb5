//! The name that somebody may have meant.

/// The entry of `known` that is nearest to `given`, if any is near: at most a third of its
/// characters differ.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|name| (distance(given, name), *name));
    let (distance, name) = near.min()?;
    (distance * 3 <= name.chars().count().max(3)).then_some(name)
}

/// Levenshtein's distance: the fewest insertions, removals and replacements of one character.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [("", "", 0), ("abc", "abc", 0), ("", "ab", 2), ("kitten", "sitting", 3)] {
            assert_eq!(distance(a, b), d);
            assert_eq!(distance(b, a), d);
        }
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["dev", "addr", "gateway", "services"];
        assert_eq!(nearest("gatway", &known), Some("gateway"));
        assert_eq!(nearest("service", &known), Some("services"));
        assert_eq!(nearest("device", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
