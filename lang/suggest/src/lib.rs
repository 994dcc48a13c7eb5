//! "Did you mean …?": the known name closest to a mistyped one.
//!
//! Every room that reports an unknown name uses this crate, so that all of them suggest by the same
//! rule. A name is close if
//! - it differs only in upper and lower case, or
//! - a third of the characters, at most four, turn one into the other (inserted, removed, replaced,
//!   or two neighbours swapped), or
//! - one contains the other: `UDPEcho` for `RxL4UDPEcho`, `device` for `dev`.
//!
//! ```
//! let known = ["dev", "addr", "gateway"];
//! assert_eq!(weever_suggest::nearest("gatway", known), Some("gateway"));
//! assert_eq!(weever_suggest::did_you_mean("adr", known).unwrap(), "did you mean `addr`?");
//! assert_eq!(weever_suggest::nearest("colour", known), None);
//! ```
#![forbid(unsafe_code)]

/// Longer names get no suggestion, in bytes: the work is the product of the two lengths, and a file
/// may hold words of any length.
const LONGEST: usize = 128;
/// Shorter names are contained in too many others by chance, in bytes.
const SHORTEST_PART: usize = 3;

/// The name of `known` that is closest to `given`; of several equally close ones, the first. `None` if
/// none is close. A name equal to `given` is never suggested.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = given.to_lowercase();
    let rated = known.into_iter().filter_map(|name| Some((difference(given, &lower, name)?, name)));
    rated.min_by_key(|(difference, _)| *difference).map(|(_, name)| name)
}

/// ``did you mean `NAME`?`` with the [`nearest`] name, if there is one.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(given, known).map(|name| format!("did you mean `{name}`?"))
}

/// How far `name` is from `given`: edits, and beyond those the characters that the longer of two names
/// has more, where one contains the other. `None` if they are not close.
fn difference(given: &str, lower: &str, name: &str) -> Option<(bool, usize)> {
    if given == name || given.len().max(name.len()) > LONGEST {
        return None;
    }
    let name = name.to_lowercase();
    let edits = strsim::osa_distance(lower, &name);
    if edits <= (given.chars().count() / 3).clamp(1, 4) {
        return Some((false, edits));
    }
    let (short, long) = if lower.len() < name.len() { (lower, &*name) } else { (&*name, lower) };
    // At least half of the given text must be meant.
    let is_part = short.len() >= SHORTEST_PART && long.contains(short);
    let is_most = short.len() * 2 >= lower.len();
    (is_part && is_most).then(|| (true, long.len() - short.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_characters_may_differ() {
        for (given, known, meant) in [
            ("gatway", &["dev", "gateway"][..], Some("gateway")),
            ("prot", &["port", "spawn"], Some("port")),
            ("Clasify", &["Classify", "Classified"], Some("Classify")),
            ("xyz", &["port", "spawn"], None),
            ("l0", &["lo", "eth0"], Some("lo")),
            ("x", &[], None),
            ("", &["dev"], None),
        ] {
            assert_eq!(nearest(given, known.iter().copied()), meant, "{given}");
        }
    }

    #[test]
    fn case_does_not_count_and_an_equal_name_is_no_suggestion() {
        assert_eq!(nearest("rxqueue", ["TxQueue", "RxQueue"]), Some("RxQueue"));
        assert_eq!(nearest("port", ["port"]), None);
    }

    #[test]
    fn a_part_of_a_name_is_recognized_after_what_is_mistyped() {
        assert_eq!(nearest("UDPEcho", ["RxL4UDPEcho", "RxL4TCP"]), Some("RxL4UDPEcho"));
        assert_eq!(nearest("TxPacer", ["Counter", "Pacer"]), Some("Pacer"));
        assert_eq!(nearest("device", ["dev"]), Some("dev"));
        assert_eq!(nearest("ports", ["imports", "port"]), Some("port"));
        assert_eq!(nearest("a-long-word-with-a-dev-in-it", ["dev"]), None);
        assert_eq!(nearest("et", ["ethernet"]), None);
    }

    #[test]
    fn names_of_any_length_are_answered_without_much_work() {
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, [long.as_str(), "y"]), None);
    }
}
