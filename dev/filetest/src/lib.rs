//! Tests that are files, which anyone can add without writing Rust (`filetests/*`).
//!
//! A test is a file in a folder; beside it lies its expected output, under the same name with the
//! ending `expect`. The folder's owner turns a file into its output, the *transcript*;
//! [`Folder::compare`] does the rest.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of tests.
#[derive(Clone, Debug)]
pub struct Folder {
    files: Vec<PathBuf>,
    update: bool,
}

impl Folder {
    /// The files of `path` with the ending `extension`, by name. With `UPDATE_EXPECT` in the
    /// environment, [`compare`](Self::compare) writes expectations instead of holding files to them.
    ///
    /// # Panics
    /// If the folder cannot be read.
    pub fn open(path: &Path, extension: &str) -> Folder {
        let update = std::env::var_os("UPDATE_EXPECT").is_some();
        Folder { files: files(path, extension), update }
    }

    /// The files, by name.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Compares the transcript of each file with its expectation. `transcript` gets the file's name
    /// and its text.
    ///
    /// # Errors
    /// The mismatch of each file that is not as expected: its name, the first line that differs,
    /// and its present output; or why it has no transcript.
    pub fn compare(
        &self,
        transcript: impl Fn(&str, &str) -> Result<String, String>,
    ) -> Result<(), String> {
        let wrong = |file: &PathBuf| self.check(file, &transcript).err();
        let wrong: Vec<String> = self.files.iter().filter_map(wrong).collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("{}\nUPDATE_EXPECT=1 accepts the new output", wrong.join("\n"))),
        }
    }

    fn check(
        &self,
        file: &Path,
        transcript: impl Fn(&str, &str) -> Result<String, String>,
    ) -> Result<(), String> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let failed = |e: &dyn std::fmt::Display| format!("{name}: {e}");
        let source = fs::read_to_string(file).map_err(|e| failed(&e))?;
        let got = transcript(&name, &source).map_err(|e| failed(&e))?;
        let expect = file.with_extension("expect");
        if self.update {
            return fs::write(&expect, got).map_err(|e| format!("{}: {e}", expect.display()));
        }
        let wanted = fs::read_to_string(&expect).unwrap_or_default();
        match got == wanted {
            true => Ok(()),
            false => {
                let line = first_difference(&got, &wanted);
                Err(failed(&format!("differs from its .expect in line {line}; now it is:\n{got}")))
            }
        }
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

/// The first line that differs, from 1; the one behind the shorter text if it is all of the other.
fn first_difference(got: &str, wanted: &str) -> usize {
    let same = got.lines().zip(wanted.lines()).take_while(|(a, b)| a == b);
    same.count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own with these files, which is gone when this is dropped.
    struct Made(PathBuf);

    impl Made {
        fn new(name: &str, files: &[(&str, &str)]) -> Made {
            let path =
                std::env::temp_dir().join(format!("weever-ft-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), text).unwrap();
            }
            Made(path)
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn loud(_: &str, source: &str) -> Result<String, String> {
        if source.is_empty() { Err("nothing to say".into()) } else { Ok(source.to_uppercase()) }
    }

    #[test]
    fn a_file_is_held_to_what_lies_beside_it() {
        let files = [("b.test", "one\ntwo\n"), ("b.expect", "ONE\nTWO\n"), ("a.test", "x\n")];
        let made =
            Made::new("held", &[&files[..], &[("a.expect", "X\n"), ("c.other", "")]].concat());
        let folder = Folder { update: false, ..Folder::open(&made.0, "test") };
        assert_eq!(folder.files(), [made.0.join("a.test"), made.0.join("b.test")]);
        assert_eq!(folder.compare(loud), Ok(()));
        fs::write(made.0.join("b.expect"), "ONE\nthree\n").unwrap();
        fs::write(made.0.join("a.test"), "").unwrap();
        let wrong = folder.compare(loud).unwrap_err();
        assert!(
            wrong.contains("b.test: differs from its .expect in line 2; now it is:\nONE\nTWO\n")
        );
        assert!(wrong.starts_with("a.test: nothing to say\n") && wrong.contains("UPDATE_EXPECT=1"));
    }

    #[test]
    fn updating_writes_what_files_give_now() {
        let made = Made::new("update", &[("a.test", "x\n")]);
        let folder = Folder { update: true, ..Folder::open(&made.0, "test") };
        assert_eq!(folder.compare(loud), Ok(()));
        assert_eq!(fs::read_to_string(made.0.join("a.expect")).unwrap(), "X\n");
    }

    #[test]
    fn a_text_that_is_all_of_the_other_differs_behind_its_end() {
        assert_eq!(first_difference("a\nb\n", "a\n"), 2);
        assert_eq!(first_difference("", "a\n"), 1);
        assert_eq!(first_difference("a\nb\nc\n", "a\nx\nc\n"), 2);
    }
}
