//! A file of defaults: what `weever run` takes where neither its options nor the environment say otherwise.
//!
//! ```toml
//! apps = "/run/weever/apps.sock"
//! require = true
//!
//! [program.nginx]
//! only = "tcp port 80 or tcp port 443"
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::{RunArgs, selection};
use crate::stack::{StackArgs, Where};

/// The file, unless an option or the environment names another.
const PATH: &str = "/etc/weever/run.toml";

/// Why the defaults are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefaultsError {
    /// The file cannot be read.
    #[error("{}: {source}; give --defaults another file of defaults, or make this one readable", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It says something that means nothing.
    #[error("{}: {what}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}

/// What the file says, for all programs or for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Values {
    apps: Option<PathBuf>,
    stack: Option<Where>,
    dev: Option<String>,
    addr: Vec<String>,
    via: Vec<String>,
    only: Option<String>,
    require: Option<bool>,
    rings: Option<bool>,
    log: Option<String>,
}

impl Values {
    fn names_a_stack(&self) -> bool {
        let names = self.apps.is_some() || self.stack.is_some() || self.dev.is_some();
        names || !self.addr.is_empty() || !self.via.is_empty()
    }
}

/// The file's content.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    all: Values,
    programs: BTreeMap<String, Values>,
}

impl Defaults {
    /// Reads the named file, or the usual one if it is there.
    pub(crate) fn read(named: Option<&Path>) -> Result<Defaults, DefaultsError> {
        let path = named.unwrap_or(Path::new(PATH));
        match std::fs::read_to_string(path) {
            Ok(text) => Defaults::parse(&text)
                .map_err(|what| DefaultsError::Meaning { path: path.to_owned(), what }),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
                Ok(Defaults::default())
            }
            Err(source) => Err(DefaultsError::Read { path: path.to_owned(), source }),
        }
    }

    fn parse(text: &str) -> Result<Defaults, String> {
        let mut all: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        let programs = all.remove("program");
        let all = values("", toml::Value::Table(all))?;
        let mut defaults = Defaults { all, ..Defaults::default() };
        let programs = match programs {
            None => toml::Table::new(),
            Some(toml::Value::Table(programs)) => programs,
            Some(_) => return Err("program: make it a table, as [program.nginx]".into()),
        };
        for (name, of_program) in programs {
            let of_program = values(&format!("program.{name}."), of_program)?;
            defaults.programs.insert(name, of_program);
        }
        Ok(defaults)
    }

    /// Fills in what the options leave open, for this program. Options that name a stack do so completely, as the
    /// environment does (`in_environment`), and as a program's table does.
    pub(crate) fn complete(
        &self,
        mut args: RunArgs,
        program: &OsStr,
        in_environment: bool,
    ) -> RunArgs {
        let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or("");
        let one = self.programs.get(name);
        let values = || one.into_iter().chain([&self.all]);
        if !args.stack.names_a_stack()
            && !in_environment
            && let Some(values) = values().find(|values| values.names_a_stack())
        {
            let Values { apps, stack, dev, addr, via, .. } = values.clone();
            args.stack = StackArgs { apps, stack, dev, addr, via };
        }
        args.only = args.only.or_else(|| values().find_map(|values| values.only.clone()));
        args.log = args.log.or_else(|| values().find_map(|values| values.log.clone()));
        args.rings |= values().find_map(|values| values.rings).unwrap_or(false);
        args.require |= values().find_map(|values| values.require).unwrap_or(false);
        args
    }
}

/// The values of a table whose keys have this prefix.
fn values(prefix: &str, table: toml::Value) -> Result<Values, String> {
    let values: Values = table.try_into().map_err(|e: toml::de::Error| {
        let place = if prefix.is_empty() { String::new() } else { format!("{prefix}…: ") };
        format!("{place}{}", e.message())
    })?;
    if let Some(only) = &values.only {
        selection(only).map_err(|error| format!("{prefix}only: {error}"))?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    const TEXT: &str = "apps = \"/all\"\nrequire = true\nlog = \"/log\"\n\
         [program.nginx]\nonly = \"tcp port 80\"\nrequire = false\n\
         [program.redis-server]\nstack = \"inside\"\ndev = \"eth1\"\naddr = [\"10.0.0.1/24\"]\n";

    fn completed(line: &str, in_environment: bool) -> RunArgs {
        let args = Line::parse_from(["run"].into_iter().chain(line.split(' '))).args;
        let program = args.command[0].clone();
        Defaults::parse(TEXT).unwrap().complete(args, &program, in_environment)
    }

    #[test]
    fn options_come_before_the_environment_before_the_program_before_all() {
        let nginx = completed("/usr/sbin/nginx -g x", false);
        assert_eq!(nginx.stack.apps.as_deref(), Some(Path::new("/all")));
        assert_eq!((nginx.only.as_deref(), nginx.require), (Some("tcp port 80"), false));
        assert_eq!(nginx.log.as_deref(), Some("/log"));
        let redis = completed("redis-server", false);
        assert_eq!((redis.stack.stack, redis.stack.apps.clone()), (Some(Where::Inside), None));
        assert!(redis.require && redis.stack.addr == ["10.0.0.1/24"]);
        let named = completed("--apps /mine --only udp redis-server", false);
        assert_eq!((named.stack.stack, named.stack.dev.clone()), (None, None));
        assert_eq!(named.only.as_deref(), Some("udp"));
        assert_eq!(completed("curl", true).stack.apps, None);
        assert!(completed("--require nginx", false).require);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, part) in [
            ("onyl = \"tcp\"", "onyl"),
            ("[program.nginx]\nrequire = 3", "program.nginx."),
            ("[program.nginx]\nonly = \"tcp prot 80\"", "program.nginx.only"),
            ("program = 3", "[program.nginx]"),
            ("stack = \"elsewhere\"", "elsewhere"),
            ("apps", "expected"),
        ] {
            let error = Defaults::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let missing = Defaults::read(Some(Path::new("/nowhere.toml"))).unwrap_err().to_string();
        assert!(missing.contains("/nowhere.toml") && missing.contains("--defaults"), "{missing}");
    }
}
