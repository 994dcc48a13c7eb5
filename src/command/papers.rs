//! Manual pages and completions, made from the command's definition: they cannot be out of date.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub(crate) struct PapersError {
    path: PathBuf,
    source: io::Error,
}

/// `weever man`.
#[derive(Args, Clone, Debug)]
pub(super) struct Man {
    /// The directory, made if it is missing, such as /usr/local/share/man/man1
    directory: PathBuf,
}

/// `weever completions`.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Man {
    pub(super) fn run(&self, command: &Command) -> Result<ExitCode, PapersError> {
        let failed = |path: PathBuf| move |source| PapersError { path, source };
        fs::create_dir_all(&self.directory).map_err(failed(self.directory.clone()))?;
        for (name, page) in pages(command) {
            let path = self.directory.join(format!("{name}.1"));
            fs::write(&path, page).map_err(failed(path))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Completions {
    pub(super) fn run(
        self,
        mut command: Command,
        out: &mut dyn Write,
    ) -> Result<ExitCode, PapersError> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "weever", &mut text);
        match out.write_all(&text) {
            Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
                Err(PapersError { path: "the completions".into(), source })
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

/// The page of the command and of every command below it, by name: `weever-graph-svg`.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![(command.get_name().to_owned(), command)];
    while let Some((name, command)) = left.pop() {
        let below = command.get_subcommands().filter(|c| !c.is_hide_set());
        left.extend(below.map(|c| (format!("{name}-{}", c.get_name()), c.clone())));
        let mut page = Vec::new();
        // Building has given it the name with those above it.
        Page::new(command).render(&mut page).expect("memory takes every page");
        pages.push((name, page));
    }
    pages.sort();
    pages
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::ValueEnum;

    use super::*;
    use crate::command::Cli;

    /// The names of all commands, by another way than [`pages`] goes.
    fn names(command: &Command, path: &str) -> Vec<String> {
        let below = command.get_subcommands().filter(|c| !c.is_hide_set());
        let deeper = below.flat_map(|c| names(c, &format!("{path}-{}", c.get_name())));
        std::iter::once(path.to_owned()).chain(deeper).collect()
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let mut expected = names(&Cli::command(), "weever");
        expected.sort();
        let pages = pages(&Cli::command());
        let found: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, expected);
        assert!(found.contains(&"weever-graph-svg") && found.contains(&"weever-capture"));
        let page = |name: &str| {
            let page = &pages.iter().find(|(n, _)| n == name).unwrap().1;
            String::from_utf8(page.clone()).unwrap()
        };
        assert!(page("weever-capture").contains("\\-\\-snaplen"));
        assert!(page("weever").contains("Exit status"));
        for (name, page) in &pages {
            assert!(page.windows(4).any(|w| w == b"NAME"), "{name} has no name");
        }
    }

    #[test]
    fn every_shell_has_completions_that_know_the_commands() {
        for shell in Shell::value_variants() {
            let mut text = Vec::new();
            Completions { shell: *shell }.run(Cli::command(), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("capture") && text.contains("snaplen"), "{shell}");
        }
    }
}
