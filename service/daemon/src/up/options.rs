//! The options of `weever up` that set settings, made from the table of settings.

use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use weever_service_api::settings::{Default as Unset, Kind, Setting, TABLE};

use crate::config::Settings;

/// The settings given on the command line.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingOptions(pub(super) Settings);

/// Settings that have an option, with its name.
fn options() -> impl Iterator<Item = (&'static Setting, String)> {
    TABLE.iter().filter_map(|setting| Some((setting, setting.flag()?)))
}

impl Args for SettingOptions {
    fn augment_args(command: Command) -> Command {
        options().fold(command, |command, (setting, flag)| command.arg(argument(setting, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingOptions::augment_args(command)
    }
}

fn argument(setting: &'static Setting, flag: String) -> Arg {
    let argument = Arg::new(setting.key).long(flag).help_heading("Settings");
    if setting.kind == Kind::Switch {
        let summary = setting.summary();
        let (first, rest) = summary.split_at(summary.chars().next().map_or(0, char::len_utf8));
        let help = match setting.default {
            Unset::Value("true") => format!("Do not {}{rest}", first.to_lowercase()),
            _ => summary.into(),
        };
        return argument.help(help).action(ArgAction::SetTrue);
    }
    let summary = match setting.default {
        Unset::Value(value) => format!("{} [default: {value}]", setting.summary()),
        Unset::None(_) => setting.summary().into(),
    };
    let argument = argument.help(summary).value_name(setting.kind.value_name());
    let argument = argument.value_parser(parser(setting));
    match setting.is_list {
        true => argument.action(ArgAction::Append).value_delimiter(','),
        false => argument.action(ArgAction::Set),
    }
}

/// Refuses values that the setting does not take. Completions offer the words of settings that have
/// some.
fn parser(setting: &'static Setting) -> ValueParser {
    if let Kind::Word(words) = setting.kind {
        return PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).into();
    }
    let check = move |text: String| {
        let checked = Settings::default().add_option(setting.key, &text);
        checked.map(|()| text)
    };
    StringValueParser::new().try_map(check).into()
}

impl FromArgMatches for SettingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingOptions, clap::Error> {
        let mut options = SettingOptions::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let failed = |why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why);
        for (setting, _) in options() {
            let key = setting.key;
            if setting.kind == Kind::Switch {
                if matches.get_flag(key) {
                    let is_on = setting.default == Unset::Value("true");
                    self.0.add_option(key, &(!is_on).to_string()).map_err(failed)?;
                }
                continue;
            }
            for text in matches.get_many::<String>(key).into_iter().flatten() {
                self.0.add_option(key, text).map_err(failed)?;
            }
        }
        Ok(())
    }
}
