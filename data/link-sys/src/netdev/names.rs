//! Interface names, and those that someone may have meant.

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

/// Interface indices are handed out from 1 on; a namespace rarely gets far.
const LAST_INDEX: u32 = 512;

/// The interfaces that are there.
fn all() -> Vec<String> {
    let Ok(fd) = socket(AddressFamily::INET, SocketType::DGRAM, None) else { return Vec::new() };
    (1..=LAST_INDEX).filter_map(|index| index_to_name(&fd, index).ok()).collect()
}

/// Names that differ from `name` by little; all names if none does.
pub(super) fn near(name: &str) -> Vec<String> {
    let mut names = all();
    let near = |other: &String| distance(name, other) <= 1 + name.len() / 4;
    if names.iter().any(near) {
        names.retain(near);
    }
    names.truncate(8);
    names
}

pub(super) fn remedy(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        more => format!("; there are {}", more.join(", ")),
    }
}

/// How many characters have to be inserted, removed or replaced, not counting differences between
/// upper and lower case.
fn distance(a: &str, b: &str) -> usize {
    strsim::levenshtein(&a.to_lowercase(), &b.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("eth0", "eth0", 0),
            ("eth", "eth0", 1),
            ("eht0", "eth0", 2),
            ("", "lo", 2),
            ("ETH0", "eth0", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_remedy_names_what_there_is() {
        assert_eq!(remedy(&[]), "");
        assert_eq!(remedy(&["lo".into()]), "; did you mean lo?");
        assert_eq!(remedy(&["a".into(), "b".into()]), "; there are a, b");
    }
}
