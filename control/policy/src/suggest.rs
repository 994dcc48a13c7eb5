//! "Did you mean …".

/// The entry of `known` that is nearest to `given`, if one is near enough to be meant.
pub(crate) fn did_you_mean<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    // The work is the product of the lengths, and a file may hold words of any length.
    if given.len() > 64 {
        return None;
    }
    let limit = (given.chars().count() / 3).max(1);
    let near = |k: &'a str| (strsim::osa_distance(given, k), k);
    let (distance, name) = known.into_iter().map(near).min()?;
    (distance <= limit).then(|| format!("did you mean `{name}`?"))
}
