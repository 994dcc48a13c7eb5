//! From settings to a configuration: values are read with their types, and checked for how they fit together.

mod interface;
mod reach;

use weever_packet::{HugePages, PoolConfig};

use super::error::Problems;
use super::settings::Table;
use super::value::{Cores, Ports};
use super::{Config, ConfigError, Interface, Prefix, Services, Settings};

pub(crate) use interface::shortest_mtu;
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
            services: Services {
                echo: top.find("services.echo"),
                discard: top.find("services.discard"),
                tcp_echo: top.find("services.tcp-echo"),
                tcp_discard: top.find("services.tcp-discard"),
            },
            mode: top.get("mode"),
            cores: top.list("cores").into_iter().flat_map(|Cores(cores)| cores).collect(),
            pool: pool(top),
            control: top.path("control"),
            state: top.path("state"),
            metrics: top.find("metrics"),
            apps: top.path("apps"),
            apps_users: top.list("apps-users"),
            apps_groups: top.list("apps-groups"),
            apps_trusted: top.list("apps-trusted"),
            apps_first_port: top.get("apps-first-port"),
            apps_memory: top.get("apps-memory"),
            apps_ephemeral: top.find("apps-ephemeral").map(|Ports(range)| range),
            apps_keep: top.get("apps-keep"),
            policy: top.path("policy"),
            flows: top.path("flows"),
            probe: top.get("probe"),
            drop_privileges: top.get("drop-privileges"),
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
        interface::check_threads(&config, &mut problems);
        check_services_and_memory(&config, &mut problems);
        problems.found_at(|key, value| settings.origin(key, value)).map(|()| config)
    }
}

/// In bytes: the sizes that AF_XDP takes.
const FRAME_SIZES: [u32; 2] = [2048, 4096];

fn pool(top: &Table) -> PoolConfig {
    let huge_pages = if top.get("pool.huge-pages") { HugePages::Try } else { HugePages::Never };
    let (frames, frame_size) = (top.get("pool.frames"), top.get("pool.frame-size"));
    let node = top.find("pool.node");
    PoolConfig { frames, frame_size, huge_pages, node, ..PoolConfig::default() }
}

fn check_services_and_memory(config: &Config, problems: &mut Problems) {
    let Services { echo, discard, tcp_echo, tcp_discard } = config.services;
    for (one, name, other, key) in [
        (echo, "services.echo", discard, "services.discard"),
        (tcp_echo, "services.tcp-echo", tcp_discard, "services.tcp-discard"),
    ] {
        if let Some(port) = one.filter(|_| one == other) {
            let problem = format!("{name} has the same port");
            problems.add(key, port, &problem, "give every service a port of its own");
        }
    }
    let cores = &config.cores;
    let twice = cores.iter().enumerate().find(|(i, core)| cores[..*i].contains(core));
    if let Some((_, core)) = twice {
        let problem = format!("core {core} is there twice");
        problems.add(
            "cores",
            format!("{cores:?}"),
            &problem,
            "give every worker a core of its own",
        );
    }
    if !FRAME_SIZES.contains(&config.pool.frame_size) {
        let remedy = format!("use {} or {} (bytes)", FRAME_SIZES[0], FRAME_SIZES[1]);
        let problem = "AF_XDP has no frames of that size";
        problems.add("pool.frame-size", config.pool.frame_size, problem, &remedy);
    }
    if config.flows.is_some() && config.policy.is_none() {
        let flows = config.flows.as_deref().unwrap_or("".as_ref()).display();
        let remedy = "leave it out, or give `--policy FILE`";
        problems.add("flows", flows, "there is no policy that would place them", remedy);
    }
}
