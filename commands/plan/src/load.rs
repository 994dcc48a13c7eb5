//! Models, flows and policies from files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weever_device::ethtool::{Driver, KernelDriver};
use weever_device::{as_found, model_of};
use weever_graph::Graph;
use weever_plan::nic::Nic;
use weever_policy::flows::{self, FlowList};
use weever_policy::policy::{self, CheckedPolicy};

use crate::{PlanArgs, PlanToolError};

/// In MiB: a million flows, with long lines.
const LONGEST: u64 = 256;

/// A NIC as it is to be planned for.
#[derive(Clone, Debug)]
pub struct Model {
    /// The PRG.
    pub prg: Graph,
    /// The view of it that the plan is for.
    pub nic: Nic,
    /// All that the silicon can do, if that is more.
    pub silicon: Option<Nic>,
}

/// The model that the command line names, with the queues that it asks for; `auto` is that of the device, with what the
/// device has now.
pub(crate) fn model(args: &PlanArgs) -> Result<Model, PlanToolError> {
    if args.nic != "auto" {
        return model_as(&args.nic, args.queues, args.linux, args.silicon);
    }
    let mut driver = KernelDriver::open(&args.dev)?;
    let name = model_of(&mut driver, weever_models::nic_of_driver)?;
    let queues = match (args.queues, name) {
        (None, "xdp") => None,
        (None, _) => Some(driver.channels()?.receiving().max(1)),
        (queues, _) => queues,
    };
    let model = model_as(name, queues, args.linux, args.silicon)?;
    let nic = as_found(&mut driver, model.nic)?;
    Ok(Model { nic, ..model })
}

/// A model by its name or file, with this number of queues: the filters that Linux exposes of it, unless there are none.
///
/// # Errors
/// [`PlanToolError`] if there is no such model, or it has fewer queues.
pub fn load_model(name: &str, queues: Option<u32>) -> Result<Model, PlanToolError> {
    model_as(name, queues, false, false)
}

fn model_as(
    name: &str,
    queues: Option<u32>,
    linux_only: bool,
    all_silicon: bool,
) -> Result<Model, PlanToolError> {
    let prg = prg(name)?;
    let nic = |source| PlanToolError::Nic { file: name.to_string(), source };
    let silicon = Nic::of(&prg).map_err(nic)?;
    let linux = Nic::linux_of(&prg).map_err(nic)?;
    let queues = |view: Nic| match queues {
        Some(count) => view.with_queues(count),
        None => Ok(view),
    };
    // The xdp model, for one, is nothing that ethtool knows of.
    let exposed = !linux.tables.is_empty() || silicon.tables.is_empty();
    if linux_only || (exposed && !all_silicon) {
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
    load_flows(&args.flows, args.keep_going)
}

/// The flows of a file.
///
/// # Errors
/// [`PlanToolError`] for mistakes in it, unless it is to keep going.
pub fn load_flows(path: &Path, keep_going: bool) -> Result<FlowList, PlanToolError> {
    let list = flows::parse(&bytes(path)?);
    if list.problems.is_empty() || keep_going {
        return Ok(list);
    }
    Err(PlanToolError::Flows {
        file: shown(path),
        count: list.problems.count(),
        all: list.flows.len() + list.problems.count(),
        problems: list.problems,
        help: "mend them, or plan for the others with --keep-going",
    })
}

/// A policy; none is the one that balances.
///
/// # Errors
/// [`PlanToolError`] with everything that is wrong with it.
pub fn load_policy(path: Option<&Path>) -> Result<CheckedPolicy, PlanToolError> {
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
