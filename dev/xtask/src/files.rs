//! The files that git knows or would add.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Error;

/// Contents by path, relative to the workspace.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Tree {
    /// Reads every file that is tracked, or new and not ignored.
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        let mut tree = Self::default();
        for path in git_files(root)? {
            match fs::read(root.join(&path)) {
                Ok(content) => drop(tree.files.insert(path, content)),
                // Removed from the work tree but not yet from the index, or a link to a folder.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(source) => return Err(Error::Read { path, source }),
            }
        }
        Ok(tree)
    }

    /// Paths and texts of the files with that extension.
    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&Path, String)> {
        let matching = move |path: &Path| path.extension() == Some(OsStr::new(extension));
        self.files
            .iter()
            .filter(move |(path, _)| matching(path))
            .map(|(path, content)| (path.as_path(), String::from_utf8_lossy(content).into_owned()))
    }

    /// True if there is such a file, or a folder with files in it.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(path))
    }
}

fn git_files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let command = format!("git {}", arguments.join(" "));
    let output = Command::new("git")
        // Only names are read, so the owner of the checkout does not matter.
        .args(["-c", "safe.directory=*", "-C"])
        .arg(root)
        .args(arguments)
        .output()
        .map_err(|source| Error::Start { command: command.clone(), source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Command { command, stderr });
    }
    let names = output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}

#[cfg(test)]
impl Tree {
    /// A tree of the given paths and texts.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
        Self { files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_files_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if !root.join(".git").exists() {
            println!("skipped: not a git checkout");
            return;
        }
        let tree = Tree::load(&root).unwrap();
        assert!(tree.contains(Path::new("dev/xtask/src/files.rs")));
        assert!(tree.contains(Path::new("dev/xtask")));
        assert!(!tree.contains(Path::new("dev/xta")));
        assert!(!tree.contains(Path::new("target")));
    }

    #[test]
    fn extensions_select() {
        let tree = Tree::of(&[("a.rs", "x"), ("b.md", "y"), ("rs", "z")]);
        let found: Vec<_> = tree.with_extension("rs").collect();
        assert_eq!(found, [(Path::new("a.rs"), "x".to_owned())]);
    }
}
