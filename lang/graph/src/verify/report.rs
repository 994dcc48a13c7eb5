//! The list to which the checks add their findings.

use std::collections::HashSet;

use crate::{Finding, Graph, GraphError, Kind, NodeId, Severity};

pub(crate) struct FindingList<'a> {
    graph: &'a Graph,
    findings: Vec<Finding>,
    known: HashSet<(Kind, NodeId, String)>,
}

impl<'a> FindingList<'a> {
    pub(crate) fn new(graph: &'a Graph) -> FindingList<'a> {
        FindingList { graph, findings: Vec::new(), known: HashSet::new() }
    }

    /// Adds a finding about `node`, once.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        node: NodeId,
        message: String,
        remedy: impl Into<String>,
    ) {
        if self.known.insert((kind, node, message.clone())) {
            let span = self.graph.node(node).span;
            self.findings.push(Finding { kind, node, span, message, remedy: remedy.into() });
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity() == Severity::Error)
    }

    /// Everything found, in the order of severity and then of the text.
    pub(crate) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|f| (std::cmp::Reverse(f.severity()), f.node));
        self.findings
    }

    /// The errors, if there are any; else the rest.
    pub(crate) fn into_result(self) -> Result<Vec<Finding>, Vec<GraphError>> {
        let failed = self.has_errors();
        let mut findings = self.into_findings();
        if failed {
            findings.retain(|f| f.severity() == Severity::Error);
            return Err(findings);
        }
        Ok(findings)
    }
}
