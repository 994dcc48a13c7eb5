//! Paths of `weever set`.

use weever_suggest::nearest;

use super::setting::Setting;
use super::table::TABLE;

/// A path that no setting has, or one that cannot be changed while the stack runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPath {
    /// There is no such setting.
    #[error("there is no setting {path}")]
    Unknown {
        /// The path.
        path: String,
        /// The path that was probably meant.
        hint: Option<String>,
    },
    /// The setting is read at start only.
    #[error("{path} cannot be changed while the stack runs")]
    AtStart {
        /// The path.
        path: String,
    },
}

impl UnknownPath {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            UnknownPath::Unknown { hint: Some(near), .. } => format!("did you mean {near}?"),
            UnknownPath::Unknown { .. } => "`weever set --help` lists the settings".into(),
            UnknownPath::AtStart { .. } => {
                "change it in the configuration file and start the stack again".into()
            }
        }
    }
}

/// The setting that `weever set` changes by `path`, such as `interface.eth0.5.mtu`.
///
/// # Errors
/// [`UnknownPath`], with the path that was probably meant.
pub fn check_path(path: &str) -> Result<&'static Setting, UnknownPath> {
    let setting = changeable().find(|setting| fits(setting.path, path));
    setting.ok_or_else(|| {
        match TABLE.iter().find(|setting| setting.key == path && !path.is_empty()) {
            Some(_) => UnknownPath::AtStart { path: path.into() },
            None => UnknownPath::Unknown { path: path.into(), hint: meant(path) },
        }
    })
}

/// The list of paths with their values, for `weever set --help`.
pub fn paths_help() -> String {
    let width = changeable().map(|setting| setting.path.len()).max().unwrap_or_default();
    let mut text = String::from("Settings:\n");
    for setting in changeable() {
        let values = setting.path_values();
        text.push_str(&format!("  {:width$}  {values}\n", setting.path));
    }
    text
}

fn changeable() -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(|setting| !setting.path.is_empty())
}

fn is_placeholder(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Whether `path` is of this form. A word in capitals stands for one word or, if it is a name or a prefix,
/// for several: those may contain dots.
fn fits(form: &str, path: &str) -> bool {
    let (form, path): (Vec<&str>, Vec<&str>) =
        (form.split('.').collect(), path.split('.').collect());
    let same = |form: &str, word: &str| form == word || is_placeholder(form) && !word.is_empty();
    match form[..] {
        [first, long @ ("NAME" | "PREFIX"), ref rest @ ..] => {
            let Some(middle) = path.len().checked_sub(1 + rest.len()).filter(|n| *n > 0) else {
                return false;
            };
            let name = path[1..=middle].join(".");
            let ends = rest.iter().zip(&path[1 + middle..]).all(|(form, word)| same(form, word));
            first == path[0] && same(long, &name) && ends
        }
        _ => {
            form.len() == path.len() && form.iter().zip(&path).all(|(form, word)| same(form, word))
        }
    }
}

/// The path that is nearly this one.
fn meant(path: &str) -> Option<String> {
    let mut words: Vec<&str> = path.split('.').collect();
    let forms: Vec<Vec<&str>> = changeable().map(|s| s.path.split('.').collect()).collect();
    words[0] = known_or_near(words[0], forms.iter().map(|form| form[0]))?;
    let of_first = || forms.iter().filter(|form| form[0] == words[0]);
    let ends: Vec<&str> = of_first()
        .filter_map(|form| form.last().copied())
        .filter(|end| !is_placeholder(end))
        .collect();
    if let (Some(last), [_, ..]) = (words[1..].last(), &ends[..]) {
        let last = known_or_near(last, ends.iter().copied())?;
        let end = words.len() - 1;
        words[end] = last;
    }
    let near = words.join(".");
    (near != path && changeable().any(|setting| fits(setting.path, &near))).then_some(near)
}

fn known_or_near<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    known.clone().find(|name| *name == word).or_else(|| nearest(word, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_whatever_names_they_hold() {
        for (path, key) in [
            ("services.echo", "services.echo"),
            ("interface.eth0.5.mtu", "mtu"),
            ("interface.lan.addr", "addr"),
            ("route.0.0.0.0/0", ""),
            ("route.2001:db8::/32", ""),
            ("node.RxL4UDPEcho.limit", ""),
            ("forwarding", "forwarding"),
        ] {
            assert_eq!(check_path(path).unwrap().key, key, "{path}");
        }
    }

    #[test]
    fn a_path_that_is_nearly_right_is_suggested() {
        for (given, meant) in [
            ("service.ecko", "services.echo"),
            ("forwardin", "forwarding"),
            ("interfaces.eth0.5.mtuu", "interface.eth0.5.mtu"),
            ("interface.lan.adr", "interface.lan.addr"),
            ("nod.Counter.period", "node.Counter.period"),
        ] {
            let remedy = check_path(given).unwrap_err().remedy();
            assert_eq!(remedy, format!("did you mean {meant}?"));
        }
        for far in
            ["zzz", "interface.lan.colour", "services", "", "route.", "node.x", "interface.mtu"]
        {
            let remedy = check_path(far).unwrap_err().remedy();
            assert!(remedy.contains("--help"), "{remedy}");
        }
    }

    #[test]
    fn what_is_read_at_start_only_is_told_from_what_is_not_there() {
        let error = check_path("mode").unwrap_err();
        assert_eq!(error.to_string(), "mode cannot be changed while the stack runs");
        assert!(error.remedy().contains("configuration file"), "{}", error.remedy());
    }
}
