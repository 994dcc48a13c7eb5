//! A configuration as a host, and applications as clients of it.

use weever_app_server::{Access, AppServer, AppSocket, ListenError, Trusted};
use weever_host::{HostBuilder, InterfaceConfig};
use weever_link::Link;
use weever_net::demux::Binding;
use weever_net::dhcp4::CLIENT_PORT;
use weever_net::state::ReversePath;
use weever_packet::{Pool, PoolConfig, PoolError};
use weever_policy::policy::TrustedApp;

use super::secret;
use crate::config::{self, Config, Share};
use crate::stack::StartError;
use crate::stack::device::kernel::Kernel;
use crate::stack::device::links;
use crate::stack::steward::wait_mode;

/// The host that a configuration describes, with the addresses and routes of the kernel.
/// `links` are those of its devices, in their order; an interface has the number of its place there.
/// The caller adds sockets and graph.
pub(in crate::stack) fn builder(
    config: &Config,
    links: Vec<Box<dyn Link>>,
    pool: Pool,
    kernel: Option<&mut Kernel>,
) -> Result<HostBuilder, StartError> {
    let mut builder = HostBuilder::new(pool);
    for link in links {
        builder.link(link);
    }
    for interface in &config.interfaces {
        let link = links::number_of(config, &interface.dev);
        builder.interface(of_interface(interface, link))?;
    }
    let settings = &mut builder.network().settings;
    settings.forwarding = config.forwarding;
    settings.redirects = config.redirects;
    settings.reverse_path = match config.reverse_path {
        config::ReversePath::None => ReversePath::None,
        config::ReversePath::Loose => ReversePath::Loose,
        config::ReversePath::Strict => ReversePath::Strict,
    };
    // Before the routes, whose routers may be in the kernel's networks.
    if let Some(kernel) = kernel {
        kernel.shape(builder.network());
    }
    config.routes.iter().try_for_each(|route| builder.route(route))?;
    config.neighbours.iter().for_each(|(address, mac)| builder.neighbour(*address, *mac));
    builder.stable_identifiers(secret::of(config));
    builder.cores(&config.cores);
    builder.mode(wait_mode(config.mode));
    Ok(builder)
}

fn of_interface(interface: &config::Interface, link: u16) -> InterfaceConfig {
    InterfaceConfig {
        vlan: interface.vlan,
        addresses: interface.addresses.clone(),
        mtu: interface.mtu,
        groups: interface.groups.clone(),
        dhcp: interface.dhcp,
        slaac: interface.slaac,
        borrowed: interface.share == Share::Ports,
        ..InterfaceConfig::new(interface.name.as_str(), link)
    }
}

/// The pool of packets; trusted applications share its memory.
pub(in crate::stack) fn pool(config: &Config, trusts: bool) -> Result<Pool, PoolError> {
    if config.apps.is_some() && (trusts || !config.apps_trusted.is_empty()) {
        return Pool::shareable(config.pool);
    }
    Pool::new(config.pool)
}

/// The part of the pool in which trusted applications work.
const LENT: usize = 4;

/// The most sockets that applications can have together.
const MAX_SOCKETS: usize = 1 << 20;
/// Frames for datagrams longer than an ordinary frame, on their way from applications: 4 MiB.
const LARGE_FRAMES: u32 = 64;

/// Adds the applications' link to a host, without the ports of the stack's own services.
pub(in crate::stack) fn application_server(
    builder: &mut HostBuilder,
    config: &Config,
    trusted: &[TrustedApp],
) -> Result<AppServer, StartError> {
    builder.ephemeral_ports(config.ephemeral_ports());
    let large = Pool::new(PoolConfig::large(LARGE_FRAMES))?;
    let mut server = builder.applications(Some(large), MAX_SOCKETS)?;
    let workers = builder.worker_count();
    let each = builder.pool().frames() / LENT / workers;
    if !config.apps_trusted.is_empty() {
        let users = Trusted::Users(config.apps_trusted.clone());
        builder.lend_frames(&mut server, 0..workers, each, &users);
    }
    for TrustedApp { app, queue, users } in trusted {
        let (worker, application) =
            (*queue as usize, Trusted::Application(app.clone(), users.clone()));
        builder.lend_frames(&mut server, worker..worker + 1, each, &application);
    }
    server.set_first_port(config.apps_first_port);
    server.set_memory((config.apps_memory as usize) << 20);
    let services = config.services.running().map(|(_, protocol, port)| (protocol, port));
    for (protocol, port) in services.chain([("udp", CLIENT_PORT)]) {
        let binding = Binding { local_port: Some(port), ..Binding::default() };
        // In use already: two services on one port, which the configuration does not allow, or
        // one on the DHCP client's.
        let _ = server.reserve(binding, protocol == "tcp");
    }
    Ok(server)
}

/// The socket for applications, if the configuration says where.
pub(in crate::stack) fn application_socket(
    config: &Config,
) -> Result<Option<AppSocket>, StartError> {
    let Some(path) = &config.apps else { return Ok(None) };
    Ok(Some(AppSocket::bind(path, &access(config))?))
}

fn access(config: &Config) -> Access {
    Access { users: config.apps_users.clone(), groups: config.apps_groups.clone() }
}

/// The same, and credentials for programs that change their user, which the next stack at that place accepts as well.
pub(in crate::stack) fn lasting_application_socket(
    config: &Config,
) -> Result<Option<AppSocket>, StartError> {
    let Some(path) = &config.apps else { return Ok(None) };
    let problem = match secret::of_applications(path) {
        Ok(secret) => match AppSocket::bind_with_credentials(path, &access(config), secret) {
            Ok(socket) => return Ok(Some(socket)),
            Err(error @ ListenError::Taken(_)) => return Err(error.into()),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let socket = application_socket(config)?;
    tracing::warn!(error = %problem, "programs that change their user will not come back after a restart");
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_are_served_also_where_credentials_cannot_be_shown() {
        let folder = std::env::temp_dir().join(format!("weever-returning-{}", std::process::id()));
        let (path, returning) = (folder.join("apps.sock"), folder.join("apps.sock.return"));
        let mut config = Config::new("eth0", "10.0.0.1/24".parse().unwrap());
        config.apps = Some(path.clone());
        let socket = lasting_application_socket(&config).unwrap().unwrap();
        assert!(path.exists() && returning.exists());
        assert!(lasting_application_socket(&config).is_err(), "the place is taken");
        drop(socket);
        assert!(!path.exists() && !returning.exists());

        // Something that is not this stack's.
        fs::create_dir(&returning).unwrap();
        let socket = lasting_application_socket(&config).unwrap().unwrap();
        assert!(path.exists());
        drop(socket);
        assert!(returning.is_dir());
        fs::remove_dir_all(&folder).unwrap();
    }
}
