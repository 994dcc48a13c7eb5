//! The table as text: the reference page and the example file.

use weever_service_api::settings::{Default, Kind, Setting, TABLE, TablePlace, find};

/// Columns of the example file.
const WIDTH: usize = 100;

const PAGE: &str = "\
# Settings

<!-- Made of the table in service/api/src/settings/table.rs: edit that, and run
     `WEEVER_BLESS=1 cargo test -p weever-service-api --test settings`. -->

What a stack is to be stands in a file (`weever up -c weever.toml`, see
[examples/weever.toml](../examples/weever.toml)) and on the command line, which wins. Paths in a file are
relative to the file. Some settings can be changed while the stack runs, by `weever set PATH=VALUE`; `+=`
and `-=` add to lists and remove from them ([changing.md](changing.md)).

";

/// `docs/settings.md`: every setting with its key, option, values, default and path.
pub(crate) fn reference_page() -> String {
    let mut page = PAGE.to_owned();
    for (title, about, is_in) in SECTIONS {
        page.push_str(&format!("## {title}\n\n"));
        if !about.is_empty() {
            page.push_str(&format!("{about}\n\n"));
        }
        let settings = TABLE.iter().filter(|setting| is_in(setting));
        settings.for_each(|setting| page.push_str(&described(setting)));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

type Section = (&'static str, &'static str, fn(&Setting) -> bool);

const SECTIONS: &[Section] = &[
    (
        "Interfaces",
        "At the top of the file these describe the first interface; a table `[[interface]]`, which may be \
         repeated, describes another: another device, or a VLAN of the same.",
        |setting| setting.place == TablePlace::Interface,
    ),
    ("The stack", "", |setting| setting.place == TablePlace::Stack && setting.table().is_none()),
    ("Services", "In the table `[services]`.", |setting| setting.table() == Some("services")),
    ("Buffers", "In the table `[pool]`.", |setting| setting.table() == Some("pool")),
    (
        "Routes and neighbours",
        "In the tables `[[route]]` and `[[neighbour]]`, each of which may be repeated.",
        |setting| setting.place == TablePlace::Repeated,
    ),
    ("Only while the stack runs", "", |setting| setting.place == TablePlace::Nowhere),
];

fn described(setting: &Setting) -> String {
    let Setting { key, kind, path, doc, .. } = setting;
    let title = if key.is_empty() { path } else { key };
    let mut text = format!("### `{title}`\n\n{doc}\n\n");
    if !key.is_empty() {
        let list = if setting.is_list { "; one value or a list" } else { "" };
        match kind {
            Kind::Word(words) => {
                for (word, meaning) in *words {
                    text.push_str(&format!("- `{word}`: {meaning}\n"));
                }
            }
            _ => text.push_str(&format!("- value: {kind}{list}\n")),
        }
        text.push_str(&match setting.default {
            Default::Value(value) => format!("- default: `{value}`\n"),
            Default::None(meaning) if setting.is_required() => format!("- {meaning}\n"),
            Default::None(meaning) => format!("- without it: {meaning}\n"),
        });
    }
    if let Some(flag) = setting.flag() {
        let value = match kind {
            Kind::Switch => String::new(),
            _ => format!(" {}", kind.value_name()),
        };
        text.push_str(&format!("- option: `--{flag}{value}`\n"));
    }
    if !key.is_empty() {
        text.push_str(&format!("- in a file: `{} = {}`\n", setting.last_word(), setting.example));
    }
    if !path.is_empty() {
        text.push_str(&format!(
            "- while it runs: `weever set {path}=…`: {}\n",
            setting.path_values()
        ));
    }
    text.push('\n');
    text
}

const TOP: &str = "\
Configuration of a stack, for `weever up -c weever.toml`. Options of the command line win over what is \
written here; paths are relative to this file. Lines that begin with `#` and no space are settings that \
are left out: what they show is an example, and the text above says what holds without them. \
docs/settings.md lists the settings with their options.
";

/// `examples/weever.toml`: every setting with its explanation; those that are not needed are left out by
/// a `#`.
pub(crate) fn example_file() -> String {
    let mut text = commented(TOP);
    let at_top = |setting: &&Setting| {
        matches!(setting.place, TablePlace::Stack | TablePlace::Interface)
            && setting.table().is_none()
    };
    for setting in TABLE.iter().filter(at_top).filter(|setting| setting.key != "name") {
        entry(&mut text, setting);
    }
    let mut table = "";
    for setting in TABLE.iter().filter(|setting| setting.table().is_some()) {
        let (repeated, name) =
            (setting.place == TablePlace::Repeated, setting.table().unwrap_or_default());
        if table != name {
            table = name;
            text.push_str(&if repeated { format!("\n#[[{name}]]") } else { format!("\n[{name}]") });
            text.push('\n');
        }
        entry(&mut text, setting);
    }
    text.push('\n');
    let more = "More interfaces, each in a table of its own, with the keys that an interface has at the top \
                of this file, and a name.";
    text.push_str(&commented(more));
    text.push_str("#[[interface]]\n#dev = \"eth1\"\n#addr = \"198.18.0.1/24\"\n");
    if let Some(name) = find("name") {
        entry(&mut text, name);
    }
    text
}

fn entry(text: &mut String, setting: &Setting) {
    let without = match setting.default {
        Default::Value(value) if setting.kind.is_text() => format!(" Default: \"{value}\"."),
        Default::Value(value) => format!(" Default: {value}."),
        Default::None(meaning) if setting.is_required() => {
            format!(" Required{}.", meaning.trim_start_matches("required"))
        }
        Default::None(meaning) => format!(" Without it: {meaning}."),
    };
    text.push('\n');
    text.push_str(&commented(&format!("{}{without}", setting.doc)));
    if let Kind::Word(words) = setting.kind {
        for (word, meaning) in words {
            text.push_str(&commented(&format!("  \"{word}\": {meaning}")));
        }
    }
    let is_left_out = !matches!(setting.key, "dev" | "addr");
    let mark = if is_left_out { "#" } else { "" };
    text.push_str(&format!("{mark}{} = {}\n", setting.last_word(), setting.example));
}

/// Lines that begin with `# `.
fn commented(text: &str) -> String {
    let indent = text.len() - text.trim_start().len();
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && 2 + indent + line.chars().count() + 1 + word.chars().count() > WIDTH
        {
            lines.push_str(&format!("# {:indent$}{line}\n", ""));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &format!("# {:indent$}{line}\n", "")
}
