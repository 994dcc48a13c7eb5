//! Applications' queues and sockets on this stack.

use weever_app_server::{Access, AppListener, AppServer};
use weever_host::HostBuilder;
use weever_net::demux::Binding;
use weever_net::dhcp4::CLIENT_PORT;
use weever_packet::{Pool, PoolConfig};

use crate::config::Config;
use crate::stack::StartError;

/// The most sockets that applications can have together.
const MAX_SOCKETS: usize = 1 << 20;
/// Frames for datagrams longer than an ordinary frame, on their way from applications: 4 MiB.
const LARGE_FRAMES: u32 = 64;

/// Adds the applications' link to a host, without the ports of the stack's own services.
pub(in crate::stack) fn server(
    builder: &mut HostBuilder,
    config: &Config,
) -> Result<AppServer, StartError> {
    let large = Pool::new(PoolConfig::large(LARGE_FRAMES))?;
    let mut server = builder.applications(Some(large), MAX_SOCKETS)?;
    server.set_first_port(config.apps_first_port);
    let services = [config.services.echo, config.services.discard, Some(CLIENT_PORT)];
    for port in services.into_iter().flatten() {
        let binding = Binding { local_port: Some(port), ..Binding::default() };
        // In use already: two services on one port, which the configuration does not allow, or
        // one on the DHCP client's.
        let _ = server.reserve(binding);
    }
    Ok(server)
}

/// Listens for applications, if the configuration says where.
pub(in crate::stack) fn serve(
    server: AppServer,
    config: &Config,
) -> Result<Option<AppListener>, StartError> {
    let Some(path) = &config.apps else { return Ok(None) };
    let access = Access { users: config.apps_users.clone(), groups: config.apps_groups.clone() };
    Ok(Some(AppListener::start(path, &access, server)?))
}
