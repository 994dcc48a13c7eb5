use super::*;

/// A folder of its own with these files, which is gone when this is dropped.
struct Made(PathBuf);

impl Made {
    fn new(name: &str, files: &[(&str, &str)]) -> Made {
        let path = std::env::temp_dir().join(format!("weever-ft-{name}-{}", std::process::id()));
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
    let made = Made::new("held", &[&files[..], &[("a.expect", "X\n"), ("c.other", "")]].concat());
    let folder = Folder { update: false, ..Folder::open(&made.0, "test") };
    assert_eq!(folder.files(), [made.0.join("a.test"), made.0.join("b.test")]);
    assert_eq!(folder.compare(loud), Ok(()));
    fs::write(made.0.join("b.expect"), "ONE\nthree\n").unwrap();
    fs::write(made.0.join("a.test"), "").unwrap();
    let wrong = folder.compare(loud).unwrap_err();
    assert!(wrong.contains("b.test: differs from its .expect in line 2; now it is:\nONE\nTWO\n"));
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
