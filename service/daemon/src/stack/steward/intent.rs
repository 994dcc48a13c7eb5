//! What the files of a policy say.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weever_block::StateKind;
use weever_device::ethtool::{Driver, EthtoolError, KernelDriver};
use weever_device::model_of;
use weever_device::nic::NicError as DeviceError;
use weever_graph::{Node, Predicate, Verified, verify};
use weever_plan::embed::Host;
use weever_plan::nic::Nic;
use weever_plan::search::{FlowId, Options, Search};
use weever_plan::watch::FiveTuple;
use weever_policy::flows::{self, FlowSpec};
use weever_policy::policy::{self, CheckedPolicy};

use super::super::program::Program;
use super::work::{Origin, own_flows};
use super::{PolicyError, tuple};
use crate::config::{Config, LinkKind, NicChoice, Services};

/// In MiB: a million flows, with long lines.
const LONGEST: u64 = 256;

/// How a device is asked what it is.
pub(super) type Opener<'a> = dyn FnMut(&str) -> Result<Box<dyn Driver + Send>, EthtoolError> + 'a;

/// What steers a device's flows.
#[derive(Clone, Debug)]
pub(in super::super) struct Sorter {
    dev: String,
    /// With a queue for each worker.
    pub(in super::super) nic: Nic,
    /// Whether it is the device itself.
    pub(in super::super) is_hardware: bool,
}

/// A policy, flows that are known beforehand, and the models of what steers them.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    path: PathBuf,
    page: CheckedPolicy,
    specs: Vec<FlowSpec>,
    services: Services,
    /// One for each device that takes filters.
    sorters: Vec<Sorter>,
}

/// A search that has a plan, and what there is to know of its flows.
pub(super) struct Planned {
    pub(super) search: Search,
    pub(super) page: CheckedPolicy,
    pub(super) flows: Vec<(FlowId, Origin, Option<FiveTuple>)>,
}

impl Intent {
    /// Reads and checks what the configuration names; nothing if it names nothing. Touches nothing
    /// but the files, and asks devices what they are.
    ///
    /// # Errors
    /// [`PolicyError`]: everything that is wrong with the files, or what keeps the policy from being
    /// satisfied.
    pub(crate) fn of(config: &Config) -> Result<Option<Intent>, PolicyError> {
        Intent::with(config, &mut |dev| Ok(Box::new(KernelDriver::open(dev)?)))
    }

    /// Likewise, with devices that somebody else knows.
    pub(super) fn with(
        config: &Config,
        open: &mut Opener<'_>,
    ) -> Result<Option<Intent>, PolicyError> {
        let Some(path) = &config.policy else {
            return if config.flows.is_some() { Err(PolicyError::Unused) } else { Ok(None) };
        };
        let broken = |problems| PolicyError::Text { path: path.clone(), problems };
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let page = policy::parse(&text).map_err(broken)?;
        page.warnings
            .first
            .iter()
            .for_each(|warning| tracing::warn!("{}: {warning}", path.display()));
        let specs = config.flows.as_deref().map(flows_of).transpose()?.unwrap_or_default();
        let sorters = sorters(config, open)?;
        let intent = Intent { path: path.clone(), page, specs, services: config.services, sorters };
        // Also where nothing takes filters, policies make sense.
        let program = (!intent.sorters.iter().any(|sorter| !sorter.is_hardware))
            .then(|| program(config))
            .transpose()?;
        let own = intent.sorters.iter().map(|sorter| &sorter.nic);
        own.chain(&program).try_for_each(|nic| intent.plan(nic).map(drop))?;
        Ok(Some(intent))
    }

    /// What steers a device's flows.
    pub(in super::super) fn sorter(&self, dev: &str) -> Option<&Sorter> {
        self.sorters.iter().find(|sorter| sorter.dev == dev)
    }

    pub(super) fn services(&self) -> Services {
        self.services
    }

    /// A plan of what is known so far.
    pub(super) fn plan(&self, nic: &Nic) -> Result<Planned, PolicyError> {
        let mut specs = self.specs.clone();
        let mut origins = vec![Origin::File; specs.len()];
        for (origin, spec) in own_flows(&self.services) {
            specs.push(spec);
            origins.push(origin);
        }
        let tuples: Vec<_> = specs.iter().map(only_tuple).collect();
        let lpg = self.graph();
        let registry = weever_blocks_std::registry();
        let single_homed =
            |node: &Node| registry.type_of(node).is_ok_and(|t| t.state == StateKind::SingleHomed);
        // Frames of an AF_XDP socket come with nothing that anybody vouches for.
        let host = |lpg| Host { lpg, vouched: &Predicate::True, single_homed: &single_homed };
        let host = lpg.as_ref().map(host);
        let mut page = self.page.clone();
        let (mut flows, problems) = page.classify(specs);
        if !problems.is_empty() {
            return Err(PolicyError::Text { path: self.path.clone(), problems });
        }
        let cost = page.cost_function(host.as_ref());
        let mut search = Search::new(nic.clone(), cost, Options::default());
        // What the policy wants dropped comes last: nobody else has to know of it.
        flows.extend(page.standing_flows());
        let ids = search.run(flows);
        if !search.cost().is_acceptable() {
            return Err(self.unsatisfiable(&mut search));
        }
        let flows = ids.into_iter().zip(origins).zip(tuples);
        let flows = flows.map(|((id, origin), tuple)| (id, origin, tuple)).collect();
        Ok(Planned { search, page, flows })
    }

    /// The graph that runs, if the policy wants short ways through it.
    fn graph(&self) -> Option<Verified> {
        self.page.document.paths.as_ref()?;
        let mut graph = Program::new(self.services).graph().ok()?;
        weever_blocks_std::registry().annotate(&mut graph).ok()?;
        verify(graph).ok()
    }

    fn unsatisfiable(&self, search: &mut Search) -> PolicyError {
        let plan = search.plan();
        let shortage = |s: &weever_plan::search::Shortage| {
            let class = self.page.document.class_name(s.class);
            format!("{} flows of class `{class}`: {}: {}", s.flows, s.table, s.reason)
        };
        let complaints = plan.complaints.iter().cloned();
        let complaints = complaints.chain(plan.shortages.iter().map(shortage)).collect();
        PolicyError::Unsatisfiable {
            path: self.path.clone(),
            workers: search.nic().queues.count(),
            complaints,
        }
    }
}

/// What steers the flows of each device that takes filters.
fn sorters(config: &Config, open: &mut Opener<'_>) -> Result<Vec<Sorter>, PolicyError> {
    let mut sorters: Vec<Sorter> = Vec::new();
    for interface in config.interfaces.iter().filter(|i| i.link == LinkKind::AfXdp) {
        if sorters.iter().all(|sorter| sorter.dev != interface.dev) {
            sorters.push(sorter(config, &interface.dev, interface.nic, open)?);
        }
    }
    Ok(sorters)
}

fn sorter(
    config: &Config,
    dev: &str,
    choice: NicChoice,
    open: &mut Opener<'_>,
) -> Result<Sorter, PolicyError> {
    let device = |error: EthtoolError| PolicyError::Hardware {
        link: dev.to_owned(),
        source: Box::new(DeviceError::Device(error)),
    };
    let model = match choice {
        NicChoice::Xdp => "xdp",
        NicChoice::Auto => model_of(&mut *open(dev).map_err(device)?).map_err(device)?,
        NicChoice::Model(model) => {
            takes_rules(&mut *open(dev).map_err(device)?, model)?;
            model
        }
    };
    if choice != NicChoice::Xdp {
        tracing::info!(device = dev, model, "what sorts its packets");
    }
    let is_hardware = model != "xdp";
    let nic = match is_hardware {
        true => Nic::linux_of(&weever_models::nic(model)?)?.with_queues(workers(config))?,
        false => program(config)?,
    };
    Ok(Sorter { dev: dev.to_owned(), nic, is_hardware })
}

fn workers(config: &Config) -> u32 {
    config.cores.len().max(1) as u32
}

/// The model of the program.
fn program(config: &Config) -> Result<Nic, PolicyError> {
    Ok(Nic::of(&weever_models::nic("xdp")?)?.with_queues(workers(config))?)
}

fn takes_rules(driver: &mut dyn Driver, model: &str) -> Result<(), PolicyError> {
    let link = driver.device().to_owned();
    match driver.table() {
        Ok(_) => Ok(()),
        Err(error) if error.is_unsupported() => {
            let driver = driver.identity().map_or_else(|_| "unknown".into(), |known| known.driver);
            Err(PolicyError::NoRules { link, driver, model: model.into() })
        }
        Err(error) => {
            let source = Box::new(DeviceError::Device(error));
            Err(PolicyError::Hardware { link, source })
        }
    }
}

/// The five-tuple that the flow is, if it is one.
fn only_tuple(spec: &FlowSpec) -> Option<FiveTuple> {
    match &spec.parts[..] {
        [part] => tuple::of(part),
        _ => None,
    }
}

fn flows_of(path: &Path) -> Result<Vec<FlowSpec>, PolicyError> {
    let list = flows::parse(&read(path)?);
    match list.problems.is_empty() {
        true => Ok(list.flows),
        false => Err(PolicyError::Text { path: path.into(), problems: list.problems }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PolicyError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take((LONGEST << 20) + 1).read_to_end(&mut bytes));
    let read = read.map_err(|source| PolicyError::Read { path: path.into(), source })?;
    match read as u64 > LONGEST << 20 {
        true => Err(PolicyError::TooLong { path: path.into(), most: LONGEST }),
        false => Ok(bytes),
    }
}
