//! The place that sorts a device's packets into the workers' queues.

use std::fmt;
use std::str::FromStr;

use weever_suggest::nearest;

/// The place where a policy's filters are installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicChoice {
    /// A program in front of the sockets, on any device.
    #[default]
    Xdp,
    /// The device itself if there is a model for its driver, else the program.
    Auto,
    /// The device itself, which is as this model says. The model is one that ships.
    Model(&'static str),
}

impl fmt::Display for NicChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NicChoice::Xdp => "xdp",
            NicChoice::Auto => "auto",
            NicChoice::Model(name) => name,
        })
    }
}

impl FromStr for NicChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<NicChoice, String> {
        let named = |name: &&str| name.eq_ignore_ascii_case(text);
        match weever_models::nics().find(named) {
            Some("xdp") => Ok(NicChoice::Xdp),
            Some(model) => Ok(NicChoice::Model(model)),
            None if named(&"auto") => Ok(NicChoice::Auto),
            None => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    let mut known: Vec<&str> = weever_models::nics().filter(|name| *name != "xdp").collect();
    known.splice(0..0, ["xdp", "auto"]);
    let remedy = match nearest(text, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use one of {}", known.join(", ")),
    };
    format!("there is no NIC model `{text}`; {remedy}")
}
