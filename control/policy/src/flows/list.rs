//! Flows as a file describes them.

use weever_plan::flow::Conj;
use weever_plan::watch::FiveTuple;

use crate::{Position, Problem, Problems};

/// No file has more flows.
pub const MAX_FLOWS: usize = 1 << 20;

/// A flow as a file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Its position in the file.
    pub place: Position,
    /// The name to show: its own, or its expression as written.
    pub name: String,
    /// Its packets.
    pub parts: Vec<Conj>,
    /// Its packets per second, or in the unit that the file uses throughout.
    pub rate: Option<u64>,
    /// The name of its class, if the file gives one.
    pub class: Option<String>,
    /// The application that it belongs to.
    pub app: Option<String>,
    /// The core on which that application runs.
    pub core: Option<u16>,
    /// How much it counts beside other flows.
    pub weight: u32,
}

impl FlowSpec {
    /// An observed flow that no file describes, with its packets per second. `None` if it has no
    /// packets ([`FiveTuple::packets`]).
    pub fn seen(tuple: FiveTuple, rate: u64) -> Option<FlowSpec> {
        Some(FlowSpec {
            place: Position::File,
            name: tuple.to_string(),
            parts: vec![tuple.packets()?],
            rate: Some(rate),
            class: None,
            app: None,
            core: None,
            weight: 1,
        })
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowList {
    /// The flows that could be read, in the order of the file.
    pub flows: Vec<FlowSpec>,
    /// The lines that could not be read.
    pub problems: Problems,
}

impl FlowList {
    /// Takes a flow of the file, or why it cannot be read.
    pub(super) fn take(&mut self, flow: Result<FlowSpec, Problem>) {
        match flow {
            Ok(_) if self.flows.len() == MAX_FLOWS => {
                self.problems.more += 1;
            }
            Ok(flow) => self.flows.push(flow),
            Err(problem) => self.problems.add(problem),
        }
        if self.flows.len() == MAX_FLOWS && self.problems.first.len() < crate::problem::MAX_KEPT {
            let full = format!("there are more than {MAX_FLOWS} flows, which is too many");
            if !self.problems.first.iter().any(|p| p.message == full) {
                self.problems.add(Problem::new(Position::File, full));
            }
        }
    }
}
