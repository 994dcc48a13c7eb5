//! The entries of the settings' table.

use std::fmt;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key in the file, after the name of its table: `mode`, `pool.frames`, `route.to`. Empty for one
    /// that can only be set while the stack runs.
    pub key: &'static str,
    /// Its place in the file.
    pub place: TablePlace,
    /// The values it takes.
    pub kind: Kind,
    /// Whether it takes several values.
    pub is_list: bool,
    /// The effect of leaving it out.
    pub default: Default,
    /// A value, as it is written in the file.
    pub example: &'static str,
    /// The path by which `weever set` changes it; words in capitals stand for names. Empty: it cannot be
    /// changed while the stack runs.
    pub path: &'static str,
    /// The values that `weever set` takes, where they are not those of `kind`.
    pub path_values: &'static str,
    /// Its effect: a sentence, and more where one is not enough.
    pub doc: &'static str,
}

/// The place of a setting in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePlace {
    /// At the top, or in the table that its key begins with.
    Stack,
    /// At the top for the first interface, and in `[[interface]]` for others.
    Interface,
    /// In a table that may be repeated, `[[route]]` for example, which its key begins with.
    Repeated,
    /// In no file: it is set while the stack runs.
    Nowhere,
}

/// The effect of leaving a setting out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This value.
    Value(&'static str),
    /// No value, with the meaning of that.
    None(&'static str),
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Yes or no.
    Switch,
    /// A whole number: the least, the largest, and the unit.
    Number(u32, u32, &'static str),
    /// One of a few words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// The name of something.
    Name,
    /// The path of a file or directory. In a file, it is relative to the directory of that file.
    Path,
    /// An address of either family.
    Address,
    /// An address with the length of its network's prefix.
    Prefix,
    /// An address with a TCP port.
    Endpoint,
    /// An Ethernet address.
    Mac,
    /// Numbers of cores: one, or a range of them.
    Cores,
    /// A range of ports: the first and the last.
    Ports,
    /// The place that sorts packets: `xdp`, `auto`, or the name of a NIC model.
    Nic,
}

impl Kind {
    /// The value's name on a command line.
    pub fn value_name(self) -> &'static str {
        match self {
            Kind::Switch => "BOOLEAN",
            Kind::Number(_, _, "UDP port") => "PORT",
            Kind::Number(..) => "NUMBER",
            Kind::Word(_) => "WORD",
            Kind::Name => "NAME",
            Kind::Path => "PATH",
            Kind::Address => "ADDRESS",
            Kind::Prefix => "ADDRESS/PREFIX",
            Kind::Endpoint => "ADDRESS:PORT",
            Kind::Mac => "MAC",
            Kind::Cores => "CORES",
            Kind::Ports => "FIRST-LAST",
            Kind::Nic => "MODEL",
        }
    }

    /// Whether its values are written in quotes in a file.
    pub fn is_text(self) -> bool {
        !matches!(self, Kind::Switch | Kind::Number(..) | Kind::Cores)
    }
}

/// The values in words: `a UDP port, 1 to 65535`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Kind::Switch => "true or false",
            Kind::Number(least, most, "") => return write!(f, "a number, {least} to {most}"),
            Kind::Number(least, most, "UDP port") => {
                return write!(f, "a UDP port, {least} to {most}");
            }
            Kind::Number(least, most, unit) => {
                return write!(f, "a number of {unit}, {least} to {most}");
            }
            Kind::Word(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                return match words.split_last() {
                    Some((last, [])) => f.write_str(last),
                    Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
                    None => Ok(()),
                };
            }
            Kind::Name => "a name",
            Kind::Path => "a path",
            Kind::Address => "an address, such as 192.0.2.1 or 2001:db8::1",
            Kind::Prefix => {
                "an address with a prefix length, such as 192.0.2.10/24 or 2001:db8::10/64"
            }
            Kind::Endpoint => "an address with a port, such as 127.0.0.1:9464 or [::1]:9464",
            Kind::Mac => "an Ethernet address, such as 02:00:00:00:00:07",
            Kind::Cores => "numbers of cores: 1, or a range such as 0-3",
            Kind::Ports => "the first and the last port: 61000-63999",
            Kind::Nic => "xdp, auto, or a NIC model such as 82599 (`weever plan` lists them)",
        };
        f.write_str(text)
    }
}

impl Setting {
    /// The option of `weever up`, without its dashes: the last word of the key, with `no-` before it
    /// for a switch that turns off. `None` for settings of files only.
    pub fn flag(&self) -> Option<String> {
        let has_one = match self.place {
            TablePlace::Stack => true,
            TablePlace::Interface => self.key != "name",
            TablePlace::Repeated | TablePlace::Nowhere => false,
        };
        let is_on = self.kind == Kind::Switch && self.default == Default::Value("true");
        let prefix = if is_on { "no-" } else { "" };
        has_one.then(|| format!("{prefix}{}", self.last_word()))
    }

    /// The values that `weever set` takes, in words.
    pub fn path_values(&self) -> String {
        match self.path_values {
            "" => self.kind.to_string(),
            values => values.to_owned(),
        }
    }

    /// Whether nothing works without it, perhaps with exceptions.
    pub fn is_required(&self) -> bool {
        matches!(self.default, Default::None(meaning) if meaning.starts_with("required"))
    }

    /// The key within its table.
    pub fn last_word(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// The table that it lies in; `None` at the top.
    pub fn table(&self) -> Option<&'static str> {
        self.key.rsplit_once('.').map(|(table, _)| table)
    }

    /// The first sentence of its description, without the full stop.
    pub fn summary(&self) -> &'static str {
        let end = self.doc.find(". ").unwrap_or(self.doc.len());
        self.doc[..end].trim_end_matches('.')
    }
}
