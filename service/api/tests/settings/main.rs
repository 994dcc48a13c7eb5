//! The pages that are made of the table of settings are as the table says.

mod page;

use std::fs;
use std::path::Path;

use page::{example_file, reference_page};
use weever_service_api::settings::{TABLE, paths_help};

/// Compares a file of the repository with its generated text; writes it if `WEEVER_BLESS` is set.
fn check(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("WEEVER_BLESS").is_some() {
        fs::write(&file, made).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == made,
        "{path} is not as the table of settings says: run \
         `WEEVER_BLESS=1 cargo test -p weever-service-api --test settings`"
    );
}

#[test]
fn the_reference_page_is_up_to_date() {
    check("docs/settings.md", &reference_page());
}

#[test]
fn the_example_file_is_up_to_date() {
    check("examples/weever.toml", &example_file());
}

#[test]
fn every_setting_is_in_every_text() {
    let (page, example, help) = (reference_page(), example_file(), paths_help());
    for setting in TABLE {
        assert!(page.contains(setting.doc), "{setting:?}");
        assert!(help.contains(setting.path), "{setting:?}");
        let line = format!("{} = {}", setting.last_word(), setting.example);
        assert!(setting.key.is_empty() || example.contains(&line), "{setting:?}");
    }
}
