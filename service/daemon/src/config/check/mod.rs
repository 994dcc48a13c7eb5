//! From settings to a configuration.

mod interface;
mod reach;
mod system;

use weever_packet::PoolConfig;

use super::{Config, ConfigError, Interface, InterfaceSettings, Prefix, Settings};
pub(crate) use interface::shortest_mtu;
pub(crate) use reach::Own;

/// What is wrong so far: a configuration is looked at as a whole.
#[derive(Default)]
struct Problems(Vec<ConfigError>);

impl Problems {
    /// The value; the default one where there is a problem, which is noted.
    fn note<T: Default>(&mut self, checked: Result<T, ConfigError>) -> T {
        checked.unwrap_or_else(|problem| {
            self.0.push(problem);
            T::default()
        })
    }

    fn add(&mut self, key: &str, value: impl ToString, problem: &str, remedy: &str) {
        self.0.push(ConfigError::invalid(key, value, problem, remedy));
    }

    fn none_or(mut self) -> Result<(), ConfigError> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(ConfigError::Several(self.0)),
        }
    }
}

impl Config {
    /// A configuration with the defaults, for a device (or a name, for a link that is none) and
    /// an address.
    pub fn new(dev: impl Into<String>, address: Prefix) -> Config {
        Config::of(vec![Interface::new(dev, vec![address])])
    }

    /// A configuration with the defaults for these interfaces. There has to be one.
    pub fn of(interfaces: Vec<Interface>) -> Config {
        Config {
            interfaces,
            routes: Vec::new(),
            neighbours: Vec::new(),
            forwarding: false,
            redirects: true,
            reverse_path: super::ReversePath::default(),
            services: super::Services::default(),
            mode: super::Mode::default(),
            cores: Vec::new(),
            pool: PoolConfig { frames: system::DEFAULT_FRAMES, ..PoolConfig::default() },
            control: None,
            state: None,
            metrics: None,
            policy: None,
            flows: None,
            probe: true,
            aids: super::Aids::default(),
        }
    }
}

impl TryFrom<Settings> for Config {
    type Error = ConfigError;

    fn try_from(mut settings: Settings) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let first = first_interface(&mut settings);
        let interfaces = interface::all(first, settings.interfaces, &mut problems);
        let mut config = Config::of(interfaces);
        let own = Own::of(&config.interfaces);
        config.routes = reach::routes(settings.gateway, settings.routes, &own, &mut problems);
        config.neighbours = reach::neighbours(settings.neighbours, &own, &mut problems);
        config.forwarding = settings.forwarding.unwrap_or_default();
        interface::forwards(&config, &mut problems);
        config.redirects = settings.redirects.unwrap_or(true);
        config.reverse_path = settings.reverse_path.unwrap_or_default();
        config.services =
            system::services(settings.services.echo, settings.services.discard, &mut problems);
        config.mode = settings.mode.unwrap_or_default();
        config.cores = problems.note(system::cores(settings.cores.unwrap_or_default()));
        config.pool = system::pool(&settings.pool, &mut problems);
        config.control = settings.control;
        config.state = settings.state;
        config.metrics = settings.metrics;
        (config.policy, config.flows) = (settings.policy, settings.flows);
        interface::sorts(&config, &mut problems);
        config.probe = settings.probe.unwrap_or(true);
        problems.none_or().map(|()| config)
    }
}

/// The interface that `dev` and its companions describe; none if other tables describe all.
fn first_interface(settings: &mut Settings) -> Option<InterfaceSettings> {
    let first = InterfaceSettings {
        name: None,
        dev: settings.dev.take(),
        link: settings.link,
        addr: std::mem::take(&mut settings.addr),
        vlan: settings.vlan,
        share: settings.share,
        nic: settings.nic,
        dhcp: settings.dhcp,
        slaac: settings.slaac,
        mtu: settings.mtu,
        pace: settings.pace,
        groups: std::mem::take(&mut settings.groups),
    };
    let is_absent = first == InterfaceSettings::default() && !settings.interfaces.is_empty();
    (!is_absent).then_some(first)
}
