//! NIC models by name. Every `nic/*.unicorn` is one.

use weever_graph::Graph;

use crate::Model;

/// Every NIC model, by the name that commands use: its file's.
pub const NICS: &[(&str, Model)] = include!(concat!(env!("OUT_DIR"), "/nics.rs"));

/// Why there is no model of a NIC.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NicModelError {
    /// No model has the name.
    #[error("there is no NIC model `{name}`; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The text is no graph.
    #[error("{0}")]
    Text(weever_unicorn::Errors),
}

/// The names of the models that ship.
pub fn nics() -> impl Iterator<Item = &'static str> {
    NICS.iter().map(|(name, _)| *name)
}

/// The PRG of the NIC called `name`, not configured. Upper and lower case are the same.
///
/// # Errors
/// [`NicModelError::Unknown`] lists the names that there are.
pub fn nic(name: &str) -> Result<Graph, NicModelError> {
    let found = NICS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, model)) = found else {
        let known = nics().collect::<Vec<_>>().join(", ");
        return Err(NicModelError::Unknown { name: name.into(), known });
    };
    let loaded = weever_unicorn::load(model.source, model.file).map_err(NicModelError::Text)?;
    Ok(loaded.graph)
}
