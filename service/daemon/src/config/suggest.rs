//! The name that somebody may have meant.

/// The entry of `known` that is nearest to `given`, if any is near: at most a third of its
/// characters differ.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|name| (strsim::levenshtein(given, name), *name));
    let (distance, name) = near.min()?;
    (distance * 3 <= name.chars().count().max(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["dev", "addr", "gateway", "services"];
        assert_eq!(nearest("gatway", &known), Some("gateway"));
        assert_eq!(nearest("service", &known), Some("services"));
        assert_eq!(nearest("device", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
