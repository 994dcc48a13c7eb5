//! From settings to a configuration.

mod interface;
mod problems;
mod reach;
mod system;

use super::settings::Table;
use super::value::Cores;
use super::{Config, ConfigError, Interface, Prefix, Settings};
pub(crate) use interface::shortest_mtu;
use problems::Problems;
pub(crate) use reach::Own;

impl Config {
    /// A configuration with the defaults, for a device (or a name, for a link that is none) and
    /// an address.
    pub fn new(dev: impl Into<String>, address: Prefix) -> Config {
        Config::of(vec![Interface::new(dev, vec![address])])
    }

    /// A configuration with the defaults for these interfaces. There has to be one.
    pub fn of(interfaces: Vec<Interface>) -> Config {
        Config::with(interfaces, &Table::default())
    }

    /// The stack's settings as they are written; nothing is checked yet.
    fn with(interfaces: Vec<Interface>, top: &Table) -> Config {
        Config {
            interfaces,
            routes: Vec::new(),
            neighbours: Vec::new(),
            forwarding: top.get("forwarding"),
            redirects: top.get("redirects"),
            reverse_path: top.get("reverse-path"),
            services: super::Services {
                echo: top.find("services.echo"),
                discard: top.find("services.discard"),
            },
            mode: top.get("mode"),
            cores: top.list("cores").into_iter().flat_map(|Cores(cores)| cores).collect(),
            pool: system::pool(top),
            control: top.path("control"),
            state: top.path("state"),
            metrics: top.find("metrics"),
            apps: top.path("apps"),
            apps_users: top.list("apps-users"),
            apps_groups: top.list("apps-groups"),
            apps_first_port: top.get("apps-first-port"),
            policy: top.path("policy"),
            flows: top.path("flows"),
            probe: top.get("probe"),
            aids: super::Aids::default(),
        }
    }
}

impl TryFrom<Settings> for Config {
    type Error = ConfigError;

    fn try_from(settings: Settings) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let interfaces = interface::all(&settings, &mut problems);
        let mut config = Config::with(interfaces, &settings.top);
        let own = Own::of(&config.interfaces);
        config.routes = reach::routes(&settings, &own, &mut problems);
        config.neighbours = reach::neighbours(&settings, &own, &mut problems);
        interface::check_forwarding(&config, &mut problems);
        interface::check_filters(&config, &mut problems);
        system::check(&config, &mut problems);
        problems.found_in(&settings).map(|()| config)
    }
}
