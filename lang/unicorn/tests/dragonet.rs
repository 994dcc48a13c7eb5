//! Dragonet's own models, if they are at hand: `DRAGONET_MODELS` names a folder with `*.unicorn`
//! files, taken unchanged from the Dragonet project. weever carries no copy of them.

use std::path::{Path, PathBuf};

use weever_unicorn::{load, parse, print};

fn models(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            found.extend(models(&path));
        } else if path.extension().is_some_and(|e| e == "unicorn") {
            found.push(path);
        }
    }
    found
}

#[test]
fn published_models_load_unchanged_and_survive_printing() {
    let Some(folder) = std::env::var_os("DRAGONET_MODELS") else {
        println!("skipped: DRAGONET_MODELS not set");
        return;
    };
    let models = models(Path::new(&folder));
    assert!(!models.is_empty(), "no models in {}", Path::new(&folder).display());
    for path in models {
        let text = std::fs::read_to_string(&path).expect("a readable model");
        let name = path.display().to_string();
        let loaded = load(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}: {} nodes, {} doubts", loaded.graph.len(), loaded.diagnostics.len());
        let ast = parse(&text).0;
        let printed = print(&ast);
        assert_eq!(parse(&printed).0, ast, "{name}");
        assert_eq!(load(&printed, &name).unwrap().graph.len(), loaded.graph.len());
    }
}
