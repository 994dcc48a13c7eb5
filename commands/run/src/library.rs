//! Where the library is that goes into programs.

use std::env;
use std::path::{Path, PathBuf};

/// The library for a stack in a process of its own.
pub(crate) const PRELOAD: &str = "libweever_preload.so";
/// The library that has the stack with it.
pub(crate) const INSIDE: &str = "libweever_inside.so";

/// Why there is no library to put into a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It is nowhere.
    #[error(
        "{name} is in none of {places}; build it with `cargo build --release`, or set WEEVER_PRELOAD to its path"
    )]
    Missing {
        /// Its name.
        name: &'static str,
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
/// The path that it says is the one of a library for a stack elsewhere, which its sister lies beside.
pub(crate) fn find(name: &'static str) -> Result<PathBuf, LibraryError> {
    let places = match env::var_os("WEEVER_PRELOAD") {
        Some(path) if name == PRELOAD => vec![PathBuf::from(path)],
        Some(path) => vec![PathBuf::from(path).with_file_name(name)],
        None => {
            let exe = env::current_exe().ok();
            exe.as_deref().and_then(Path::parent).map_or_else(Vec::new, |there| near(there, name))
        }
    };
    choose(&places, name)
}

/// The places for a program in this folder.
fn near(folder: &Path, name: &str) -> Vec<PathBuf> {
    let lib = folder.parent().unwrap_or(folder).join("lib");
    vec![folder.join(name), lib.join("weever").join(name), lib.join(name)]
}

fn choose(places: &[PathBuf], name: &'static str) -> Result<PathBuf, LibraryError> {
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        return Err(LibraryError::Missing { name, places: places.join(", ") });
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
        let missing = choose(&near(&bin, PRELOAD), PRELOAD).unwrap_err().to_string();
        assert!(missing.contains("WEEVER_PRELOAD") && missing.contains("lib/weever"), "{missing}");
        fs::write(lib.join(PRELOAD), "").unwrap();
        assert_eq!(choose(&near(&bin, PRELOAD), PRELOAD).unwrap(), lib.join(PRELOAD));
        fs::write(bin.join(PRELOAD), "").unwrap();
        assert_eq!(choose(&near(&bin, PRELOAD), PRELOAD).unwrap(), bin.join(PRELOAD));
        let spaced = root.join("a folder");
        fs::create_dir_all(&spaced).unwrap();
        fs::write(spaced.join(PRELOAD), "").unwrap();
        assert!(matches!(choose(&near(&spaced, PRELOAD), PRELOAD), Err(LibraryError::Path { .. })));
        fs::remove_dir_all(&root).unwrap();
    }
}
