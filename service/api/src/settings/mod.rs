//! The settings of a stack, in one table.
//!
//! [`TABLE`] has one entry for each setting. The users' side is made of it: the keys of `weever.toml` and
//! the options of `weever up` (the daemon reads both by the entry's [`Kind`]), the paths of `weever set`
//! with their suggestions and help, `docs/settings.md` and `examples/weever.toml`. The table knows
//! nothing of the stack, so that every client can use it.
//!
//! A setting lies at the top of the file (`mode`), in a table (`pool.frames`), or in a table that may be
//! repeated (`route.to`). Those of an interface lie at the top for the first interface and in
//! `[[interface]]` for others.

mod paths;
mod setting;
mod table;

pub use paths::{UnknownPath, check_path, paths_help};
pub use setting::{Default, Kind, Setting, TablePlace};
pub use table::TABLE;

/// The setting with this key: `mode`, `pool.frames`, `route.to`, `mtu`.
pub fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key && !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_flags_and_paths_are_unique_and_explained() {
        let mut seen = std::collections::HashSet::new();
        for setting in TABLE {
            let Setting { key, path, doc, example, .. } = *setting;
            assert!(!key.is_empty() || !path.is_empty(), "{setting:?}");
            assert!(key.is_empty() || seen.insert(format!("key {key}")), "{key}");
            assert!(path.is_empty() || seen.insert(format!("path {path}")), "{path}");
            if let Some(flag) = setting.flag() {
                assert!(seen.insert(format!("flag {flag}")), "--{flag}");
            }
            assert!(doc.ends_with('.') && !setting.summary().is_empty(), "{key}{path}: {doc}");
            assert_eq!(key.is_empty(), setting.place == TablePlace::Nowhere, "{key}{path}");
            assert_eq!(key.is_empty(), example.is_empty(), "{key}{path}");
            assert!(!setting.kind.to_string().is_empty());
        }
    }

    #[test]
    fn a_switch_that_is_on_has_a_flag_that_turns_it_off() {
        assert_eq!(find("probe").unwrap().flag().as_deref(), Some("no-probe"));
        assert_eq!(find("dhcp").unwrap().flag().as_deref(), Some("dhcp"));
        assert_eq!(find("pool.frame-size").unwrap().flag().as_deref(), Some("frame-size"));
        assert_eq!(find("route.to").unwrap().flag(), None);
        assert!(find("").is_none());
    }
}
