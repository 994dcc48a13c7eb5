//! Models, flows and policies from files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weever_graph::Graph;
use weever_plan::nic::Nic;
use weever_policy::flows::{self, FlowList};
use weever_policy::policy::{self, Page};

use crate::{PlanArgs, PlanToolError};

/// In MiB: a million flows, with long lines.
const LONGEST: u64 = 256;

/// A NIC as it is to be planned for.
pub(crate) struct Model {
    /// The PRG.
    pub(crate) prg: Graph,
    /// The view of it that the plan is for.
    pub(crate) nic: Nic,
    /// All that the silicon can do, if that is more.
    pub(crate) silicon: Option<Nic>,
}

/// The model that the command line names, with the queues that it asks for.
pub(crate) fn model(args: &PlanArgs) -> Result<Model, PlanToolError> {
    let prg = prg(&args.nic)?;
    let nic = |source| PlanToolError::Nic { file: args.nic.clone(), source };
    let silicon = Nic::of(&prg).map_err(nic)?;
    let linux = Nic::linux_of(&prg).map_err(nic)?;
    let queues = |view: Nic| match args.queues {
        Some(count) => view.with_queues(count),
        None => Ok(view),
    };
    // The xdp model, for one, is nothing that ethtool knows of.
    let exposed = !linux.tables.is_empty() || silicon.tables.is_empty();
    if args.linux || (exposed && !args.silicon) {
        let nic = queues(linux).map_err(nic)?;
        return Ok(Model { prg, nic, silicon: Some(silicon) });
    }
    Ok(Model { prg, nic: queues(silicon).map_err(nic)?, silicon: None })
}

fn prg(name: &str) -> Result<Graph, PlanToolError> {
    let path = Path::new(name);
    match weever_models::nic(name) {
        Ok(graph) => Ok(graph),
        Err(error) if !path.exists() => Err(PlanToolError::NoModel(error)),
        Err(_) => {
            let source = text(path)?;
            let loaded = weever_unicorn::load(&source, name)
                .map_err(|errors| PlanToolError::Model { file: name.into(), errors })?;
            Ok(loaded.graph)
        }
    }
}

/// The flows of a file. Mistakes in it end the command unless it is to keep going.
pub(crate) fn flows(args: &PlanArgs) -> Result<FlowList, PlanToolError> {
    let list = flows::parse(&bytes(&args.flows)?);
    if list.problems.is_empty() || args.keep_going {
        return Ok(list);
    }
    Err(PlanToolError::Flows {
        file: shown(&args.flows),
        count: list.problems.count(),
        all: list.flows.len() + list.problems.count(),
        problems: list.problems,
        help: "mend them, or plan for the others with --keep-going",
    })
}

/// A policy; none is the one that balances.
pub(crate) fn policy(path: Option<&Path>) -> Result<Page, PlanToolError> {
    let (file, text) = match path {
        Some(path) => (shown(path), text(path)?),
        None => (String::new(), String::new()),
    };
    policy::parse(&text).map_err(|problems| PlanToolError::Policy { file, problems })
}

pub(crate) fn text(path: &Path) -> Result<String, PlanToolError> {
    String::from_utf8(bytes(path)?)
        .map_err(|e| PlanToolError::NotText { file: shown(path), at: e.utf8_error().valid_up_to() })
}

fn bytes(path: &Path) -> Result<Vec<u8>, PlanToolError> {
    let file = shown(path);
    let read = match path.as_os_str() == "-" {
        true => read_most(std::io::stdin().lock()),
        false => File::open(path).and_then(read_most),
    };
    let bytes = read.map_err(|source| PlanToolError::Read { file: file.clone(), source })?;
    match bytes.len() as u64 > LONGEST << 20 {
        true => Err(PlanToolError::TooLong { file, most: LONGEST }),
        false => Ok(bytes),
    }
}

/// A byte more than is allowed, to notice.
fn read_most(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take((LONGEST << 20) + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path as messages name it.
pub(crate) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "<stdin>".into() } else { path.display().to_string() }
}
