//! From settings to a configuration.

use std::net::Ipv4Addr;

use weever_net::addr::Cidr;
use weever_packet::{HugePages, PoolConfig};

use super::host::unfit_for_host;
use super::{Config, ConfigError, PoolSettings, Route, Services, Settings};

/// Longest name of a device in bytes (IFNAMSIZ less the terminating zero).
const LONGEST_DEVICE_NAME: usize = 15;
const DEFAULT_FRAMES: u32 = 16_384;
/// Fewer cannot fill the rings of one queue and leave some to send with.
const FEWEST_FRAMES: u32 = 1024;
const MOST_FRAMES: u32 = 1 << 22;

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
        let address = host_address(settings.addr)?;
        let mut config = Config::new(device(settings.dev)?, address);
        config.gateway = gateway(settings.gateway, address)?;
        config.routes = routes(settings.routes, address, config.gateway.is_some())?;
        config.neighbours = neighbours(settings.neighbours, address)?;
        config.vlan = vlan(settings.vlan)?;
        config.share = settings.share.unwrap_or_default();
        config.services = services(settings.services.echo, settings.services.discard)?;
        config.mode = settings.mode.unwrap_or_default();
        config.cores = cores(settings.cores.unwrap_or_default())?;
        config.pool = pool(&settings.pool)?;
        config.control = settings.control;
        config.probe = settings.probe.unwrap_or(true);
        Ok(config)
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
) -> Result<Vec<Route>, ConfigError> {
    let mut routes: Vec<Route> = Vec::new();
    for super::RouteSetting { to, via } in settings {
        on_link("route.via", via, own)?;
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
        return Err(ConfigError::invalid("route.to", to, problem, "remove this route"));
    }
    Ok(routes)
}

fn neighbours(
    settings: Vec<super::NeighbourSetting>,
    own: Cidr,
) -> Result<Vec<(Ipv4Addr, weever_wire::MacAddr)>, ConfigError> {
    let mut neighbours: Vec<(Ipv4Addr, weever_wire::MacAddr)> = Vec::new();
    for super::NeighbourSetting { addr, mac } in settings {
        on_link("neighbour.addr", addr, own)?;
        if !mac.is_unicast() {
            let (problem, remedy) = ("it is not the address of one station", "`ip neigh` shows it");
            return Err(ConfigError::invalid("neighbour.mac", mac, problem, remedy));
        }
        if neighbours.iter().any(|(other, _)| *other == addr) {
            let (problem, remedy) = ("it is there twice", "keep one of the two");
            return Err(ConfigError::invalid("neighbour.addr", addr, problem, remedy));
        }
        neighbours.push((addr, mac));
    }
    Ok(neighbours)
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

fn services(echo: Option<u16>, discard: Option<u16>) -> Result<Services, ConfigError> {
    for (key, port) in [("services.echo", echo), ("services.discard", discard)] {
        if port == Some(0) {
            let (problem, remedy) = ("port 0 cannot be bound", "use 1 to 65535");
            return Err(ConfigError::invalid(key, 0, problem, remedy));
        }
    }
    match echo.filter(|_| echo == discard) {
        Some(port) => {
            let problem = "services.echo has the same port";
            let remedy = "give every service a port of its own";
            Err(ConfigError::invalid("services.discard", port, problem, remedy))
        }
        None => Ok(Services { echo, discard }),
    }
}

/// A list, because there will be several workers.
fn cores(cores: Vec<usize>) -> Result<Vec<usize>, ConfigError> {
    if cores.len() > 1 {
        let (problem, remedy) = ("there is one worker so far", "name one core");
        return Err(ConfigError::invalid("cores", format!("{cores:?}"), problem, remedy));
    }
    Ok(cores)
}

fn pool(settings: &PoolSettings) -> Result<PoolConfig, ConfigError> {
    let frames = settings.frames.unwrap_or(DEFAULT_FRAMES);
    if !(FEWEST_FRAMES..=MOST_FRAMES).contains(&frames) {
        let remedy = format!("use {FEWEST_FRAMES} to {MOST_FRAMES}");
        let problem = "that many frames cannot be used";
        return Err(ConfigError::invalid("pool.frames", frames, problem, remedy));
    }
    let huge_pages =
        if settings.huge_pages == Some(false) { HugePages::Never } else { HugePages::Try };
    Ok(PoolConfig { frames, huge_pages, ..PoolConfig::default() })
}
