//! The policy and the flows of the configuration's files, and the models of its devices.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weever_device::ethtool::{Driver, EthtoolError, KernelDriver};
use weever_device::nic::NicError as DeviceError;
use weever_device::{as_found, model_of};
use weever_graph::{Node, Verified, verify};
use weever_plan::embed::Host;
use weever_plan::nic::Nic;
use weever_plan::search::{Options, OthersRule};
use weever_policy::flows::{self, FlowSpec};
use weever_policy::policy::{self, CheckedPolicy};
use weever_steward::{InitialPlan, Origin};

use crate::config::{Config, LinkKind, NicChoice, Services};
use crate::stack::PolicyError;
use crate::stack::graph::program::Program;

/// In MiB: a million flows, with long lines.
const LONGEST: u64 = 256;

/// Opens a device's driver interface, by the device's name.
pub(super) type Opener<'a> = dyn FnMut(&str) -> Result<Box<dyn Driver + Send>, EthtoolError> + 'a;

/// The model by which a device's packets are sorted.
#[derive(Clone, Debug)]
pub(in crate::stack) struct DeviceModel {
    dev: String,
    /// The model, with a queue for each worker.
    pub(in crate::stack) nic: Nic,
    /// Whether the device itself sorts, rather than a program.
    pub(in crate::stack) is_hardware: bool,
}

/// A policy, the flows registered in advance, and the models of the devices.
#[derive(Clone, Debug)]
pub(crate) struct PolicySetup {
    path: PathBuf,
    policy: CheckedPolicy,
    specs: Vec<FlowSpec>,
    services: Services,
    /// One for each device that takes filters.
    models: Vec<DeviceModel>,
}

impl PolicySetup {
    /// Reads and checks the files that the configuration names; `None` if it names none. Touches
    /// nothing but the files, and asks devices for their drivers and queues.
    ///
    /// # Errors
    /// [`PolicyError`]: all mistakes in the files, or the reason why the policy cannot be satisfied.
    pub(crate) fn of(config: &Config) -> Result<Option<PolicySetup>, PolicyError> {
        PolicySetup::with(config, &mut |dev| Ok(Box::new(KernelDriver::open(dev)?)))
    }

    /// Likewise, with devices that may be simulated.
    pub(super) fn with(
        config: &Config,
        open: &mut Opener<'_>,
    ) -> Result<Option<PolicySetup>, PolicyError> {
        let Some(mut setup) = PolicySetup::from_files(config, config.services)? else {
            return Ok(None);
        };
        setup.models = models(config, open)?;
        setup.models.iter().try_for_each(|model| setup.plan(&model.nic).map(drop))?;
        if setup.models.iter().all(|model| model.is_hardware) {
            setup.plan_without_devices(config)?;
        }
        Ok(Some(setup))
    }

    /// Policies are also planned where no device takes filters: they have to be possible.
    pub(super) fn plan_without_devices(&self, config: &Config) -> Result<(), PolicyError> {
        self.plan(&program(config)?).map(drop)
    }

    /// The content of the files, for these services, without models of devices.
    pub(super) fn from_files(
        config: &Config,
        services: Services,
    ) -> Result<Option<PolicySetup>, PolicyError> {
        let Some(path) = &config.policy else {
            return if config.flows.is_some() { Err(PolicyError::Unused) } else { Ok(None) };
        };
        let broken = |problems| PolicyError::Text { path: path.clone(), problems };
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let policy = policy::parse(&text).map_err(broken)?;
        policy
            .warnings
            .first
            .iter()
            .for_each(|warning| tracing::warn!("{}: {warning}", path.display()));
        let specs = config.flows.as_deref().map(flows_of).transpose()?.unwrap_or_default();
        Ok(Some(PolicySetup { path: path.clone(), policy, specs, services, models: Vec::new() }))
    }

    pub(super) fn policy(&self) -> &CheckedPolicy {
        &self.policy
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the policy says how many workers receive from a queue.
    pub(in crate::stack) fn shares(&self) -> bool {
        self.policy.document.sharing.is_some()
    }

    /// Whether an application works in the frames of packets.
    pub(in crate::stack) fn trusts(&self) -> bool {
        !self.policy.trusted.is_empty()
    }

    /// The model by which a device's packets are sorted.
    pub(in crate::stack) fn model(&self, dev: &str) -> Option<&DeviceModel> {
        self.models.iter().find(|model| model.dev == dev)
    }

    /// A plan for the flows that are known beforehand.
    pub(super) fn plan(&self, nic: &Nic) -> Result<InitialPlan, PolicyError> {
        self.plan_with(nic, Vec::new())
    }

    /// A plan for these, too.
    pub(super) fn plan_with(
        &self,
        nic: &Nic,
        others: Vec<(Origin, FlowSpec)>,
    ) -> Result<InitialPlan, PolicyError> {
        let file = self.specs.iter().map(|spec| (Origin::File, spec.clone()));
        let specs = file.chain(service_flows(&self.services)).chain(others);
        let lpg = self.graph();
        let registry = weever_blocks_std::registry();
        let single_homed = |node: &Node| registry.home_for_parts(node).is_some();
        let vouched = nic.vouched(&[]).always();
        let host = |lpg| Host { lpg, vouched: &vouched, single_homed: &single_homed };
        let host = lpg.as_ref().map(host);
        let (policy, nic, options) = (self.policy.clone(), nic.clone(), Options::default());
        let (planned, problems) = InitialPlan::new(policy, specs, nic, options, host.as_ref());
        if !problems.is_empty() {
            return Err(PolicyError::Text { path: self.path.clone(), problems });
        }
        self.satisfied(planned)
    }

    /// A plan for the flows that are known beforehand, around rules that others made on the device.
    pub(super) fn plan_around(
        &self,
        nic: &Nic,
        others: Vec<OthersRule>,
    ) -> Result<InitialPlan, PolicyError> {
        let mut planned = self.plan(nic)?;
        planned.plan_around(others);
        self.satisfied(planned)
    }

    fn satisfied(&self, mut planned: InitialPlan) -> Result<InitialPlan, PolicyError> {
        let complaints = planned.complaints();
        if !complaints.is_empty() {
            let (path, workers) = (self.path.clone(), planned.search().nic().queues.count());
            return Err(PolicyError::Unsatisfiable { path, workers, complaints });
        }
        Ok(planned)
    }

    /// The graph that runs, if the policy wants short ways through it.
    fn graph(&self) -> Option<Verified> {
        self.policy.document.paths.as_ref()?;
        let mut graph = Program::new(self.services).graph().ok()?;
        weever_blocks_std::registry().annotate(&mut graph).ok()?;
        verify(graph).ok()
    }
}

/// The flows of services: everything to their ports.
pub(super) fn service_flows(services: &Services) -> Vec<(Origin, FlowSpec)> {
    let flow = |(name, protocol, port)| {
        let line = format!("{protocol} dst port {port} app={name} name=service:{name}");
        let spec = flows::parse(line.as_bytes()).flows.pop()?;
        Some((Origin::Service(name, port), spec))
    };
    services.running().filter_map(flow).collect()
}

/// The models of all devices that take filters.
fn models(config: &Config, open: &mut Opener<'_>) -> Result<Vec<DeviceModel>, PolicyError> {
    let mut models: Vec<DeviceModel> = Vec::new();
    for interface in config.interfaces.iter().filter(|i| i.link == LinkKind::AfXdp) {
        if models.iter().all(|model| model.dev != interface.dev) {
            models.push(model(config, &interface.dev, interface.nic, open)?);
        }
    }
    Ok(models)
}

fn model(
    config: &Config,
    dev: &str,
    choice: NicChoice,
    open: &mut Opener<'_>,
) -> Result<DeviceModel, PolicyError> {
    let device = |error: EthtoolError| PolicyError::Hardware {
        link: dev.to_owned(),
        source: Box::new(DeviceError::Device(error)),
    };
    let model = match choice {
        NicChoice::Xdp => "xdp",
        NicChoice::Auto => {
            let driver = &mut *open(dev).map_err(device)?;
            model_of(driver, weever_models::nic_of_driver).map_err(device)?
        }
        NicChoice::Model(model) => {
            takes_rules(&mut *open(dev).map_err(device)?, model)?;
            model
        }
    };
    if choice != NicChoice::Xdp {
        tracing::info!(device = dev, model, "packets are sorted by this model");
    }
    let is_hardware = model != "xdp";
    let nic = match is_hardware {
        true => {
            let nic = Nic::linux_of(&weever_models::nic(model)?)?.with_queues(workers(config))?;
            as_found(&mut *open(dev).map_err(device)?, nic).map_err(device)?
        }
        false => program(config)?,
    };
    Ok(DeviceModel { dev: dev.to_owned(), nic, is_hardware })
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
