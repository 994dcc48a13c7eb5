//! The environment of the next program: what this library needs in it.
//!
//! A program that starts another one with an environment of its own may leave out what makes the other a program on
//! weever. That is its right, unless it leaves sockets to the other: without this library they would be the kernel's,
//! and connections would end.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

/// The dynamic loader's list of libraries.
const PRELOAD: &str = "LD_PRELOAD";
/// Names of this library's own.
const NAMES: [&str; 4] =
    ["WEEVER_APPS", "WEEVER_PRELOAD_ONLY", "WEEVER_PRELOAD_LOG", "WEEVER_PRELOAD_RINGS"];
/// By this, an entry of the list is this library, or the one with a stack inside.
const LIBRARY: &str = "libweever_";

type Strings = *const *const c_char;

/// The program's environment.
pub(crate) fn own() -> Strings {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, which the program changes only while it calls nothing here.
    unsafe { environ }
}

/// What `weever run` has put into the environment, with its values when the program started.
fn needed() -> &'static [(&'static str, String)] {
    static NEEDED: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    NEEDED.get_or_init(|| {
        let names = std::iter::once(PRELOAD).chain(NAMES);
        names.filter_map(|name| Some((name, std::env::var(name).ok()?))).collect()
    })
}

/// Remembers what `weever run` has put into the environment, before the program changes it.
pub(crate) fn remember() {
    needed();
}

/// The environment of the next program.
pub(crate) struct Environment {
    list: Strings,
    /// What `list` points to, if it was made here.
    _made: Option<(Vec<CString>, Vec<*const c_char>)>,
}

impl Environment {
    /// The program's list; with `inherits`, also the library's variables that are missing in it.
    ///
    /// # Safety
    /// `given` is null or a list of strings that ends with a null pointer, and outlives this value.
    pub(crate) unsafe fn new(given: Strings, inherits: bool) -> Environment {
        let plain = Environment { list: given, _made: None };
        if !inherits || given == own() && std::env::var_os(PRELOAD).is_some() {
            return plain;
        }
        // SAFETY: the caller's promise.
        let entries = unsafe { entries(given) };
        let Some(more) = lacking(&entries, needed()) else { return plain };
        let replaced = more.iter().any(|entry| is_of(entry, PRELOAD));
        let kept = entries.iter().filter(|entry| !(replaced && is_of(entry, PRELOAD)));
        let mut list: Vec<_> = kept.map(|entry| entry.as_ptr()).collect();
        list.extend(more.iter().map(|entry| entry.as_ptr()));
        list.push(std::ptr::null());
        Environment { list: list.as_ptr(), _made: Some((more, list)) }
    }

    pub(crate) fn list(&self) -> Strings {
        self.list
    }
}

/// # Safety
/// `list` is null or a list of strings that ends with a null pointer.
unsafe fn entries<'e>(list: Strings) -> Vec<&'e CStr> {
    let mut all = Vec::new();
    // SAFETY: the caller's promise.
    unsafe {
        let mut at = list;
        while !at.is_null() && !(*at).is_null() {
            all.push(CStr::from_ptr(*at));
            at = at.add(1);
        }
    }
    all
}

/// Whether an entry is for this name.
fn is_of(entry: &CStr, name: &str) -> bool {
    let value = entry.to_bytes().strip_prefix(name.as_bytes());
    value.is_some_and(|rest| rest.starts_with(b"="))
}

/// The entries that an environment lacks; `None` if it has the library.
fn lacking(entries: &[&CStr], needed: &[(&'static str, String)]) -> Option<Vec<CString>> {
    let theirs = entries.iter().find(|entry| is_of(entry, PRELOAD));
    let theirs =
        theirs.map(|entry| String::from_utf8_lossy(&entry.to_bytes()[PRELOAD.len() + 1..]));
    if theirs.as_ref().is_some_and(|libraries| libraries.contains(LIBRARY)) {
        return None;
    }
    let mut more = Vec::new();
    for (name, value) in needed {
        let value = match &theirs {
            Some(others) if *name == PRELOAD && !others.is_empty() => format!("{value}:{others}"),
            _ => value.clone(),
        };
        if *name == PRELOAD || !entries.iter().any(|entry| is_of(entry, name)) {
            more.extend(CString::new(format!("{name}={value}")).ok());
        }
    }
    Some(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking_in(entries: &[&CStr]) -> Option<Vec<String>> {
        let needed = [(PRELOAD, "/l/libweever_preload.so".into()), ("WEEVER_APPS", "/a".into())];
        let more = lacking(entries, &needed)?;
        Some(more.into_iter().map(|entry| entry.into_string().unwrap()).collect())
    }

    #[test]
    fn what_an_environment_lacks_is_added_and_nothing_else() {
        let ours = "LD_PRELOAD=/l/libweever_preload.so".to_owned();
        assert_eq!(lacking_in(&[c"LD_PRELOAD=/x.so:/l/libweever_preload.so"]), None);
        let all = vec![ours.clone(), "WEEVER_APPS=/a".into()];
        assert_eq!(lacking_in(&[]), Some(all.clone()));
        assert_eq!(lacking_in(&[c"LD_PRELOADED=1", c"LD_PRELOAD="]), Some(all));
        let others = lacking_in(&[c"LD_PRELOAD=/x.so", c"WEEVER_APPS=/b"]);
        assert_eq!(others, Some(vec![format!("{ours}:/x.so")]));
    }
}
