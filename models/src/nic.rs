//! NIC models by name. Every `nic/*.unicorn` is one.

use weever_graph::{Attr, Graph};

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

/// The model for devices of a Linux driver: the first that names it. Loads the models one by one.
pub fn nic_of_driver(driver: &str) -> Option<&'static str> {
    model_for(NICS, driver)
}

/// A model names its drivers where packets enter: `attr "drivers=sfc sfc-siena"`.
fn model_for(models: &'static [(&'static str, Model)], driver: &str) -> Option<&'static str> {
    let found = models.iter().find(|(_, model)| {
        let loaded = weever_unicorn::load(model.source, model.file);
        loaded.is_ok_and(|loaded| names_driver(&loaded.graph, driver))
    });
    found.map(|(name, _)| *name)
}

fn names_driver(graph: &Graph, driver: &str) -> bool {
    let mut sources = graph.iter().filter(|(_, node)| node.has(&Attr::Source));
    let named = |names: &str| names.split_whitespace().any(|name| name == driver);
    sources.any(|(_, node)| node.param("drivers").is_some_and(named))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of an invented NIC, as a file in `nic/` would be embedded.
    const INVENTED: &[(&str, Model)] = &[(
        "invented",
        Model {
            file: "nic/invented.unicorn",
            source: "graph Invented {\n    queues Queue 0 .. 3\n    node In {\n        \
                     attr \"source\"\n        attr \"drivers=vapour mist\"\n        \
                     port out[Rss]\n    }\n    config Rss {\n        rss { hash toeplitz key 40 \
                     entries 8 queues 0 .. 3 udp4 4tuple }\n        port queues[Queue]\n    }\n}\n",
        },
    )];

    #[test]
    fn a_text_that_names_its_drivers_is_found_by_them_and_needs_no_code() {
        for driver in ["vapour", "mist"] {
            assert_eq!(model_for(INVENTED, driver), Some("invented"));
            assert_eq!(nic_of_driver(driver), None);
        }
        assert_eq!(model_for(INVENTED, "vap"), None);
        assert_eq!(model_for(INVENTED, ""), None);
    }
}
