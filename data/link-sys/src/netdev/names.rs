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

/// The name that was probably meant by `name`; if there is none, up to eight names that there are.
pub(super) fn near(name: &str) -> Vec<String> {
    let mut names = all();
    if let Some(near) = weever_suggest::nearest(name, names.iter().map(String::as_str)) {
        return vec![near.to_owned()];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_what_there_is() {
        assert_eq!(remedy(&[]), "");
        assert_eq!(remedy(&["lo".into()]), "; did you mean lo?");
        assert_eq!(remedy(&["a".into(), "b".into()]), "; there are a, b");
    }
}
