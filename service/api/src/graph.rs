//! Method `graph`: the running graph with its counters.

use serde::{Deserialize, Serialize};

use crate::Method;

/// Parameters of `graph`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphRequest {
    /// The language it is wanted in.
    pub format: GraphFormat,
    /// The worker whose part of it is wanted; `None`: the graph of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// Clusters that a picture shows with all of their nodes; `*`: every one. Others are single boxes
    /// in SVG; other formats always show all nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfold: Vec<String>,
}

impl Method for GraphRequest {
    const NAME: &'static str = "graph";
    type Answer = GraphText;
}

impl From<GraphFormat> for GraphRequest {
    fn from(format: GraphFormat) -> GraphRequest {
        GraphRequest { format, ..GraphRequest::default() }
    }
}

/// The formats of the running graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GraphFormat {
    /// Graphviz.
    #[default]
    Dot,
    /// Unicorn: the text that was shipped or applied last, without counters.
    Unicorn,
    /// A picture.
    Svg,
    /// A list of nodes for people.
    Text,
}

/// Answer to `graph`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphText {
    /// The language of `text`.
    pub format: GraphFormat,
    /// The graph.
    pub text: String,
}
