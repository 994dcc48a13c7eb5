//! Whether the dynamic loader can put a library into a program, by its ELF header (elf(5)).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use weever_app_sockets::makes_rings;

/// Why a program cannot be run on weever.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no such program.
    #[error("{}: no such program in PATH", .0.display())]
    Missing(PathBuf),
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The program.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is out of reach.
    #[error("{} cannot be run on weever: {why}; run it without `weever run`, on the kernel's stack", path.display())]
    OutOfReach {
        /// The program.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
}

/// Scripts of scripts that are followed, as in Linux (`BINPRM_MAX_RECURSION`).
const MOST_SCRIPTS: usize = 4;
const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const SET_USER_OR_GROUP: u32 = 0o6000;

/// The file of a program, as a shell finds it.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let named = PathBuf::from(name);
    if name.as_bytes().contains(&b'/') {
        return if named.is_file() { Ok(named) } else { Err(ProgramError::Missing(named)) };
    }
    let path =
        env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    // Servers are where the paths of ordinary users do not lead.
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = env::split_paths(&path).chain(servers).map(|folder| folder.join(name));
    places.find(|place| is_program(place)).ok_or(ProgramError::Missing(named))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
}

/// Checks that the loader puts a library into the program, or into the interpreter of a script, and, unless `rings` says
/// that they are for files, that it makes no io_urings past that library.
pub(crate) fn check(program: &Path, rings: bool) -> Result<(), ProgramError> {
    let mut path = program.to_owned();
    for _ in 0..MOST_SCRIPTS {
        let read = |source| ProgramError::Read { path: path.clone(), source };
        let bytes = fs::read(&path).map_err(read)?;
        let there = path.metadata().map_err(read)?;
        let own = rustix::process::geteuid().as_raw();
        let out = |why| Err(ProgramError::OutOfReach { path: path.clone(), why });
        // The kernel sets AT_SECURE if it changes the user, and then the loader ignores LD_PRELOAD (ld.so(8)).
        if there.mode() & SET_USER_OR_GROUP != 0 && (there.uid() != own || own != 0) {
            return out(
                "it changes its user when it starts (setuid), so that the loader adds no library",
            );
        }
        let Some(line) = bytes.strip_prefix(b"#!") else {
            return match reason(&bytes, rings) {
                Some(why) => out(why),
                None => Ok(()),
            };
        };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(&[]).trim_ascii();
        let mut words = line.split(u8::is_ascii_whitespace);
        let word = words.next().unwrap_or(&[]);
        let interpreter = match (word, words.next()) {
            (b"/usr/bin/env", Some(name)) => find(OsStr::from_bytes(name))?,
            _ => PathBuf::from(OsStr::from_bytes(word)),
        };
        path = interpreter;
    }
    Ok(())
}

/// Why this library does not see a program's calls; nothing if it does.
fn reason(bytes: &[u8], rings: bool) -> Option<&'static str> {
    const NO_PROGRAM: &str = "it is no 64-bit ELF program of this machine";
    let own = fs::read("/proc/self/exe").ok();
    let own = own.as_deref().and_then(|own| own.get(18..20));
    let is_elf = bytes.starts_with(b"\x7fELF\x02\x01");
    if !is_elf || own.is_some_and(|machine| bytes.get(18..20) != Some(machine)) {
        return Some(NO_PROGRAM);
    }
    let Some(segments) = segments(bytes) else { return Some(NO_PROGRAM) };
    let find = |kind| segments.iter().find(|segment| segment.kind == kind);
    let linked = find(PT_INTERP).filter(|_| find(PT_DYNAMIC).is_some());
    let Some(Segment { content: interpreter, .. }) = linked else {
        return Some("it is linked statically, so that no loader adds a library");
    };
    if interpreter.windows(7).any(|part| part == b"ld-musl") {
        return Some("it is built for another C library (musl)");
    }
    // The linker of Go writes a note of this name.
    let is_go = |note: &[u8]| note.get(12..16) == Some(b"Go\0\0");
    if segments.iter().any(|there| there.kind == PT_NOTE && is_go(there.content)) {
        return Some("it is written in Go, which makes system calls without the C library");
    }
    if !rings && segments.iter().any(|there| there.runs && makes_rings(there.content)) {
        return Some(
            "it makes io_urings by itself (liburing is linked statically), whose requests pass no library; with \
             --rings, which says that they are for files, `weever run` runs it",
        );
    }
    None
}

/// A segment of the program headers.
struct Segment<'p> {
    kind: u32,
    /// It is machine code.
    runs: bool,
    content: &'p [u8],
}

fn segments(bytes: &[u8]) -> Option<Vec<Segment<'_>>> {
    let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..at + 8)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..at + 2)?.first_chunk()?));
    let table = usize::try_from(number(32)?).ok()?;
    let (size, count) = (usize::from(short(54)?), usize::from(short(56)?));
    let mut all = Vec::new();
    for index in 0..count {
        let at = table.checked_add(index * size)?;
        let word = |at: usize| {
            Some(u32::from_le_bytes(*bytes.get(at..at.checked_add(4)?)?.first_chunk()?))
        };
        let (kind, flags) = (word(at)?, word(at.checked_add(4)?)?);
        let start = usize::try_from(number(at.checked_add(8)?)?).ok()?;
        let len = usize::try_from(number(at.checked_add(32)?)?).ok()?;
        let content = bytes.get(start..start.checked_add(len)?)?;
        all.push(Segment { kind, runs: kind == PT_LOAD && flags & PF_X != 0, content });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of these segments.
    fn elf(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        let mut start = 64 + 56 * segments.len() as u64;
        for (kind, content) in segments {
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&PF_X.to_le_bytes());
            header[8..16].copy_from_slice(&start.to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend(header);
            start += content.len() as u64;
        }
        segments.iter().for_each(|(_, content)| bytes.extend(*content));
        bytes
    }

    #[test]
    fn programs_are_refused_by_what_their_headers_say() {
        let loader: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
        let go: &[u8] = b"\x04\0\0\0\x10\0\0\0\x04\0\0\0Go\0\0";
        let dynamic = (PT_DYNAMIC, &[][..]);
        assert_eq!(reason(&elf(&[(PT_INTERP, loader), dynamic]), false), None);
        let code: &[u8] = match env::consts::ARCH {
            "x86_64" => b"\xb8\xa9\x01\0\0\x0f\x05\xc3",
            _ => b"\x28\x35\x80\xd2\x01\0\0\xd4",
        };
        let rings = elf(&[(PT_INTERP, loader), dynamic, (PT_LOAD, code)]);
        assert!(reason(&rings, false).unwrap().contains("--rings"));
        assert_eq!(reason(&rings, true), None);
        assert_eq!(reason(&elf(&[(PT_INTERP, loader), dynamic, (PT_NOTE, code)]), false), None);
        for (segments, word) in [
            (vec![], "statically"),
            (vec![(PT_INTERP, loader)], "statically"),
            (vec![dynamic], "statically"),
            (vec![(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0"), dynamic], "musl"),
            (vec![(PT_INTERP, loader), dynamic, (PT_NOTE, go)], "Go"),
        ] {
            let why = reason(&elf(&segments), false).unwrap();
            assert!(why.contains(word), "{why}");
        }
        let whole = elf(&[(PT_INTERP, loader), dynamic]);
        for len in 0..whole.len() {
            assert!(reason(&whole[..len], false).is_some(), "cut to {len} bytes");
        }
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let script = env::temp_dir().join(format!("weever-script-{}", std::process::id()));
        for (text, reached) in
            [("#!/bin/sh\n", true), ("#! /usr/bin/env sh -e\n", true), ("data", false)]
        {
            fs::write(&script, text).unwrap();
            assert_eq!(check(&script, false).is_ok(), reached, "{text}");
        }
        fs::remove_file(&script).unwrap();
        let missing = find(OsStr::new("no-such-program-anywhere")).unwrap_err().to_string();
        assert!(missing.contains("PATH"), "{missing}");
    }
}
