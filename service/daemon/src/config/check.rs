//! From settings to a configuration.

use std::net::Ipv4Addr;

use weever_net::addr::Cidr;
use weever_packet::{HugePages, PoolConfig};

use super::host::unfit_for_host;
use super::{Config, ConfigError, PoolSettings, Route, Services, Settings};

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

    fn none_or(mut self) -> Result<(), ConfigError> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(ConfigError::Several(self.0)),
        }
    }
}

/// Longest name of a device in bytes (IFNAMSIZ less the terminating zero).
const LONGEST_DEVICE_NAME: usize = 15;
const DEFAULT_FRAMES: u32 = 16_384;
/// Fewer cannot fill the rings of one queue and leave some to send with.
const FEWEST_FRAMES: u32 = 1024;
const MOST_FRAMES: u32 = 1 << 22;
/// In bytes, the default first.
const FRAME_SIZES: [u32; 2] = [2048, 4096];

impl Config {
    /// A configuration with the defaults, for a device (or a name, for a link that is none) and
    /// an address.
    pub fn new(dev: impl Into<String>, address: Cidr) -> Config {
        Config {
            dev: dev.into(),
            address,
            gateway: None,
            routes: Vec::new(),
            neighbours: Vec::new(),
            vlan: None,
            share: super::Share::default(),
            services: Services::default(),
            mode: super::Mode::default(),
            cores: Vec::new(),
            pool: PoolConfig { frames: DEFAULT_FRAMES, ..PoolConfig::default() },
            control: None,
            probe: true,
        }
    }
}

impl TryFrom<Settings> for Config {
    type Error = ConfigError;

    fn try_from(settings: Settings) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let dev = problems.note(device(settings.dev));
        let address = problems.note(host_address(settings.addr).map(Some));
        let mut config = Config::new(dev, address.unwrap_or(Cidr::ALL));
        // What is in the own network can be said only where that is known.
        if let Some(own) = address {
            let has_gateway = settings.gateway.is_some();
            config.gateway = problems.note(gateway(settings.gateway, own));
            config.routes = routes(settings.routes, own, has_gateway, &mut problems);
            config.neighbours = neighbours(settings.neighbours, own, &mut problems);
        }
        config.vlan = problems.note(vlan(settings.vlan));
        config.share = settings.share.unwrap_or_default();
        config.services =
            services(settings.services.echo, settings.services.discard, &mut problems);
        config.mode = settings.mode.unwrap_or_default();
        config.cores = problems.note(cores(settings.cores.unwrap_or_default()));
        config.pool = pool(&settings.pool, &mut problems);
        config.control = settings.control;
        config.probe = settings.probe.unwrap_or(true);
        problems.none_or().map(|()| config)
    }
}

fn device(name: Option<String>) -> Result<String, ConfigError> {
    let remedy = "give `--dev eth0`, or `dev = \"eth0\"` in the configuration";
    let name = name.ok_or(ConfigError::Missing { key: "dev", remedy })?;
    let bad = |problem: &str| {
        let remedy = "`ip link` lists the devices there are";
        Err(ConfigError::invalid("dev", format!("{name:?}"), problem, remedy))
    };
    if name.is_empty() {
        bad("it is empty")
    } else if name.len() > LONGEST_DEVICE_NAME {
        bad("a device's name has 15 bytes at most")
    } else if name == "." || name == ".." || name.contains(['/', ':', '\0', ' ']) {
        bad("a device's name has no `/`, `:` or space")
    } else {
        Ok(name)
    }
}

fn host_address(address: Option<Cidr>) -> Result<Cidr, ConfigError> {
    let remedy = "give `--addr 192.0.2.10/24`, or `addr = \"192.0.2.10/24\"` in the configuration";
    let address = address.ok_or(ConfigError::Missing { key: "addr", remedy })?;
    match unfit_for_host(address) {
        Some(problem) => {
            let remedy = "give an address of a host of the network";
            Err(ConfigError::invalid("addr", address, problem, remedy))
        }
        None => Ok(address),
    }
}

fn gateway(gateway: Option<Ipv4Addr>, own: Cidr) -> Result<Option<Ipv4Addr>, ConfigError> {
    if let Some(router) = gateway {
        on_link("gateway", router, own)?;
    }
    Ok(gateway)
}

/// A neighbour must be another host of the own network.
fn on_link(key: &str, neighbour: Ipv4Addr, own: Cidr) -> Result<(), ConfigError> {
    let fail = |problem: String| {
        let remedy = format!("give the address of another host of {}", own.network());
        Err(ConfigError::invalid(key, neighbour, problem, remedy))
    };
    let as_host = Cidr::new(neighbour, own.prefix_len()).and_then(unfit_for_host);
    if !own.contains(neighbour) {
        fail(format!("it is not in the network of addr = {own}"))
    } else if neighbour == own.addr() {
        fail("it is the stack's own address".into())
    } else if let Some(problem) = as_host {
        fail(problem.into())
    } else {
        Ok(())
    }
}

fn routes(
    settings: Vec<super::RouteSetting>,
    own: Cidr,
    has_gateway: bool,
    problems: &mut Problems,
) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for super::RouteSetting { to, via } in settings {
        problems.note(on_link("route.via", via, own));
        let to = to.network();
        let problem = if routes.iter().any(|r| r.to == to) {
            "there are two routes to it"
        } else if to == own.network() {
            "it is the stack's own network"
        } else if to == Cidr::ALL && has_gateway {
            "that is what gateway is for"
        } else {
            routes.push(Route { to, via });
            continue;
        };
        problems.0.push(ConfigError::invalid("route.to", to, problem, "remove this route"));
    }
    routes
}

fn neighbours(
    settings: Vec<super::NeighbourSetting>,
    own: Cidr,
    problems: &mut Problems,
) -> Vec<(Ipv4Addr, weever_wire::MacAddr)> {
    let mut neighbours: Vec<(Ipv4Addr, weever_wire::MacAddr)> = Vec::new();
    for super::NeighbourSetting { addr, mac } in settings {
        problems.note(on_link("neighbour.addr", addr, own));
        if !mac.is_unicast() {
            let (problem, remedy) = ("it is not the address of one station", "`ip neigh` shows it");
            problems.0.push(ConfigError::invalid("neighbour.mac", mac, problem, remedy));
        }
        if neighbours.iter().any(|(other, _)| *other == addr) {
            let (problem, remedy) = ("it is there twice", "keep one of the two");
            problems.0.push(ConfigError::invalid("neighbour.addr", addr, problem, remedy));
        }
        neighbours.push((addr, mac));
    }
    neighbours
}

fn vlan(vlan: Option<u16>) -> Result<Option<u16>, ConfigError> {
    match vlan {
        Some(id) if id > 4094 => {
            let (problem, remedy) = ("there is no such VLAN", "use 1 to 4094, or 0 for none");
            Err(ConfigError::invalid("vlan", id, problem, remedy))
        }
        other => Ok(other.filter(|id| *id != 0)),
    }
}

fn services(echo: Option<u16>, discard: Option<u16>, problems: &mut Problems) -> Services {
    for (key, port) in [("services.echo", echo), ("services.discard", discard)] {
        if port == Some(0) {
            let (problem, remedy) = ("port 0 cannot be bound", "use 1 to 65535");
            problems.0.push(ConfigError::invalid(key, 0, problem, remedy));
        }
    }
    if let Some(port) = echo.filter(|port| *port != 0 && echo == discard) {
        let problem = "services.echo has the same port";
        let remedy = "give every service a port of its own";
        problems.0.push(ConfigError::invalid("services.discard", port, problem, remedy));
    }
    Services { echo, discard }
}

/// A list, because there will be several workers.
fn cores(cores: Vec<usize>) -> Result<Vec<usize>, ConfigError> {
    if cores.len() > 1 {
        let (problem, remedy) = ("there is one worker so far", "name one core");
        return Err(ConfigError::invalid("cores", format!("{cores:?}"), problem, remedy));
    }
    Ok(cores)
}

fn pool(settings: &PoolSettings, problems: &mut Problems) -> PoolConfig {
    let frames = settings.frames.unwrap_or(DEFAULT_FRAMES);
    if !(FEWEST_FRAMES..=MOST_FRAMES).contains(&frames) {
        let remedy = format!("use {FEWEST_FRAMES} to {MOST_FRAMES}");
        let problem = "that many frames cannot be used";
        problems.0.push(ConfigError::invalid("pool.frames", frames, problem, remedy));
    }
    let frame_size = settings.frame_size.unwrap_or(FRAME_SIZES[0]);
    if !FRAME_SIZES.contains(&frame_size) {
        let problem = "AF_XDP has no frames of that size";
        let remedy = format!("use {} or {} (bytes)", FRAME_SIZES[0], FRAME_SIZES[1]);
        problems.0.push(ConfigError::invalid("pool.frame-size", frame_size, problem, remedy));
    }
    let huge_pages =
        if settings.huge_pages == Some(false) { HugePages::Never } else { HugePages::Try };
    PoolConfig { frames, frame_size, huge_pages, ..PoolConfig::default() }
}
