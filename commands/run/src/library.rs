//! Where the library is that goes into programs.

use std::env;
use std::path::{Path, PathBuf};

const NAME: &str = "libweever_preload.so";

/// Why there is no library to put into a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It is nowhere.
    #[error(
        "{NAME} is in none of {places}; build it with `cargo build --release -p weever-app-preload`, or set \
         WEEVER_PRELOAD to its path"
    )]
    Missing {
        /// Where it was looked for.
        places: String,
    },
    /// The dynamic loader cannot be told of this path.
    #[error("{}: the dynamic loader takes no path with spaces or colons; move it", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
}

/// The library: where `WEEVER_PRELOAD` says, or beside this program, or in the `lib` folder next to its own.
pub(crate) fn find() -> Result<PathBuf, LibraryError> {
    let places = match env::var_os("WEEVER_PRELOAD") {
        Some(path) => vec![PathBuf::from(path)],
        None => {
            env::current_exe().ok().as_deref().and_then(Path::parent).map_or_else(Vec::new, near)
        }
    };
    choose(&places)
}

/// The places for a program in this folder.
fn near(folder: &Path) -> Vec<PathBuf> {
    let lib = folder.parent().unwrap_or(folder).join("lib");
    vec![folder.join(NAME), lib.join("weever").join(NAME), lib.join(NAME)]
}

fn choose(places: &[PathBuf]) -> Result<PathBuf, LibraryError> {
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        return Err(LibraryError::Missing { places: places.join(", ") });
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let told = path.to_str().is_some_and(|text| !text.contains([' ', ':']));
    if told { Ok(path) } else { Err(LibraryError::Path { path }) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_found_beside_the_program_or_in_lib() {
        let root = env::temp_dir().join(format!("weever-library-{}", std::process::id()));
        let (bin, lib) = (root.join("bin"), root.join("lib"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let missing = choose(&near(&bin)).unwrap_err().to_string();
        assert!(missing.contains("WEEVER_PRELOAD") && missing.contains("lib/weever"), "{missing}");
        fs::write(lib.join(NAME), "").unwrap();
        assert_eq!(choose(&near(&bin)).unwrap(), lib.join(NAME));
        fs::write(bin.join(NAME), "").unwrap();
        assert_eq!(choose(&near(&bin)).unwrap(), bin.join(NAME));
        let spaced = root.join("a folder");
        fs::create_dir_all(&spaced).unwrap();
        fs::write(spaced.join(NAME), "").unwrap();
        assert!(matches!(choose(&near(&spaced)), Err(LibraryError::Path { .. })));
        fs::remove_dir_all(&root).unwrap();
    }
}
