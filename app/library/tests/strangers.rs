//! Programs that say nonsense over the applications' socket, and either side killed at any moment. The
//! stack, or the program, is another process: this test, started once more.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weever_app_ring::control::{
    Connection, MAX_MESSAGE, Refusal, Request, Response, Share, seqpacket,
};
use weever_app_ring::{Credential, Geometry, VERSION, return_path};
use weever_app_server::{Access, AppListener, AppSocket, ListenError};
use weever_app_sockets::{
    AppQueue, Bind, Error, Event, Process as Client, QueueConfig, SendOptions,
};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC};
use weever_host::{HostBuilder, InterfaceConfig, RunningHost};
use weever_link::memory::{MemoryConfig, pair};
use weever_net::random::Secret;
use weever_packet::{HugePages, Pool, PoolConfig};

const PATIENCE: Duration = Duration::from_secs(30);
/// What the process that is started does, and where the stack listens.
const ROLE: &str = "WEEVER_TEST_ROLE";
const PLACE: &str = "WEEVER_TEST_PLACE";
const OURS: [u8; 4] = [10, 0, 0, 1];
const FIRST: u16 = 7000;
const SOCKETS: u16 = 200;

/// A stack with two workers, on a link of which nobody holds the far end.
struct Stack {
    _listener: AppListener,
    _host: RunningHost,
}

fn stack(path: &Path) -> Stack {
    stack_on(AppSocket::bind(path, &Access::default()).unwrap())
}

fn stack_on(socket: AppSocket) -> Stack {
    let config = PoolConfig { frames: 2048, huge_pages: HugePages::Never, ..PoolConfig::default() };
    let (ours, _) = pair(&MemoryConfig { waitable: true, ..MemoryConfig::default() }).unwrap();
    let mut builder = HostBuilder::new(Pool::new(config).unwrap());
    builder.workers(2);
    let link = builder.link(Box::new(ours));
    assert!(
        builder
            .interface(InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap()))
            .is_ok()
    );
    builder.neighbour(PEER.into(), PEER_MAC);
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let server = builder.applications(Some(large), 20_000).unwrap();
    let _host = builder.start().unwrap();
    let _listener = socket.serve(server).unwrap();
    Stack { _listener, _host }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weever-{name}-{}.sock", std::process::id()))
}

fn config(path: &Path) -> QueueConfig {
    let geometry = Geometry { ring_len: 256, frames: 256, frame_size: 2048 };
    QueueConfig { path: path.to_owned(), geometry, ..QueueConfig::default() }
}

fn any(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

/// Killed in any case.
struct Process(Child);

impl Process {
    /// This test once more, in another role.
    fn start(role: &str, path: &Path) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["another_process", "--exact", "--nocapture"]);
        command.env(ROLE, role).env(PLACE, path).stdout(Stdio::null());
        Process(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL; it may have ended by itself only with a failure, which its output shows.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other process of the tests below; nothing by itself.
#[test]
fn another_process() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    match std::env::var(ROLE).as_deref() {
        Ok("stack") => {
            let _stack = stack(&path);
            std::thread::sleep(PATIENCE);
        }
        Ok("program") => program(&path),
        other => panic!("{other:?}"),
    }
}

/// Opens sockets of all kinds, and talks to itself until it is killed.
fn program(path: &Path) {
    let queue = AppQueue::connect(&config(path)).unwrap();
    let binds: Vec<_> = (FIRST..FIRST + SOCKETS).map(|port| Bind::at(any(port))).collect();
    let (sockets, opened) = queue.open_many(&binds);
    opened.unwrap();
    queue.listen_tcp(any(FIRST), 16, false).unwrap();
    let mut port = 0;
    loop {
        port = (port + 1) % SOCKETS;
        let to = (OURS, FIRST + port).into();
        let _full = queue.send_to(sockets[0], b"to itself", to, SendOptions::default());
        let _full = queue.connect_tcp((OURS, FIRST).into());
        queue.wait(Some(Duration::from_millis(1))).unwrap();
        while let Some(event) = queue.next().unwrap() {
            match event {
                Event::Accepted(_, stream) | Event::Connected(stream) => {
                    let _full = queue.write(stream, &[7; 3000]);
                }
                Event::Octets(octets) if octets.octets().len() % 2 == 0 => {
                    let _full = queue.close_stream(octets.stream());
                }
                _ => {}
            }
        }
    }
}

fn refusal(connection: &Connection) -> Refusal {
    match connection.receive::<Response>().unwrap().0 {
        Response::Refused { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_place_is_taken_before_anybody_is_served_and_free_again_afterwards() {
    let path = path("place");
    drop(AppSocket::bind(&path, &Access::default()).unwrap());
    assert!(!path.exists(), "nothing is left of one that served nobody");
    let socket = AppSocket::bind(&path, &Access::default()).unwrap();
    let second = AppSocket::bind(&path, &Access::default()).map(drop);
    assert!(matches!(second, Err(ListenError::Taken(_))), "{second:?}");
    // A program that comes too early waits.
    let early = config(&path);
    let early = std::thread::spawn(move || AppQueue::connect(&early).map(drop));
    std::thread::sleep(Duration::from_millis(20));
    assert!(!early.is_finished());
    let stack = stack_on(socket);
    early.join().unwrap().unwrap();
    drop(stack);
    assert!(!path.exists());
}

#[test]
fn nonsense_is_refused_and_harms_nobody_else() {
    let path = path("nonsense");
    let _stack = stack(&path);
    let well = AppQueue::connect(&config(&path)).unwrap();
    well.bind_udp(any(53)).unwrap();
    let open = |version, ring_len| Request::OpenQueue {
        version,
        name: "stranger".into(),
        ring_len,
        frames: 256,
        frame_size: 2048,
        slot: false,
    };
    let connect = || Connection::connect(&path).unwrap();

    let stranger = connect();
    stranger.send(&Request::Close { socket: 1 }, &[]).unwrap();
    assert_eq!(refusal(&stranger), Refusal::Protocol, "a queue comes first");
    for version in [0, VERSION - 1, VERSION + 1] {
        stranger.send(&open(version, 256), &[]).unwrap();
        assert_eq!(refusal(&stranger), Refusal::Protocol, "version {version}");
    }
    for ring_len in [0, 3, u32::MAX] {
        stranger.send(&open(VERSION, ring_len), &[]).unwrap();
        assert_eq!(refusal(&stranger), Refusal::Invalid, "rings of {ring_len}");
    }
    // Descriptors that nobody asked for are closed.
    let (reader, writer) = std::io::pipe().unwrap();
    stranger.send(&open(VERSION, 256), &[std::os::fd::AsFd::as_fd(&reader)]).unwrap();
    let (answer, descriptors) = stranger.receive::<Response>().unwrap();
    assert!(matches!(answer, Response::Queue { channels: 2, .. }), "{answer:?}");
    assert_eq!(descriptors.len(), 5);
    drop((reader, writer));
    stranger.send(&open(VERSION, 256), &[]).unwrap();
    assert_eq!(refusal(&stranger), Refusal::Protocol, "one queue for a connection");
    let taken = Request::BindUdp {
        in_kernel: false,
        local: any(53),
        peer: None,
        v6_only: false,
        sharing: Share::Exclusive,
        interface: None,
    };
    stranger.send(&taken, &[]).unwrap();
    assert_eq!(refusal(&stranger), Refusal::InUse);

    let long = vec![b'x'; MAX_MESSAGE + 1];
    for bytes in [&b"{"[..], b"{}", b"null", b"{\"request\":\"fly\"}", &[0xff; 100], &long] {
        let socket = seqpacket().unwrap();
        rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::send(&socket, bytes, rustix::net::SendFlags::empty()).unwrap();
        let stranger = Connection::over(socket);
        // Refused, or sent away; never silence.
        if let Ok((answer, _)) = stranger.receive::<Response>() {
            assert!(
                matches!(answer, Response::Refused { kind: Refusal::Protocol, .. }),
                "{answer:?}"
            );
        }
    }
    well.send_to(
        well.bind_udp(any(54)).unwrap(),
        b"still here",
        (OURS, 53).into(),
        SendOptions::default(),
    )
    .unwrap();
    assert!(well.wait(Some(PATIENCE)).unwrap());
    let Some(Event::Datagram(datagram)) = well.next().unwrap() else { panic!("nothing came") };
    assert_eq!(datagram.to_vec(), b"still here");
}

#[test]
fn a_credential_admits_at_the_next_stack_and_nobody_comes_without() {
    let path = path("credential");
    let start = |secret| {
        let (access, secret) = (Access::default(), Secret::new(secret));
        stack_on(AppSocket::bind_with_credentials(&path, &access, secret).unwrap())
    };
    let connect = || Connection::connect(&return_path(&path)).unwrap();
    let stack = start([1, 2]);
    let queue = AppQueue::connect(&config(&path)).unwrap();
    let given = queue.credential().unwrap();
    assert_eq!(Client::connect(&config(&path)).unwrap().credential().unwrap(), given);
    drop((queue, stack));

    let stack = start([1, 2]);
    let process = Client::present(&config(&path), &given).unwrap();
    let queue = AppQueue::over(Box::new(process), &config(&path)).unwrap();
    queue.bind_udp(any(53)).unwrap();
    assert_eq!(queue.credential().unwrap(), given, "for its children");
    let shown = given.shown;
    for wrong in [
        Credential { user: shown.user + 1, ..shown },
        Credential { group: shown.group + 1, ..shown },
        Credential { proof: [shown.proof[0], !shown.proof[1]], ..shown },
    ] {
        let wrong = weever_app_sockets::Credential { shown: wrong, ..given };
        let refused = Client::present(&config(&path), &wrong).map(drop).unwrap_err();
        assert!(refused.to_string().contains("credential"), "{refused}");
    }
    let open = Request::Route { address: [192, 0, 2, 1].into() };
    let again = Request::Present { credential: shown };
    for request in [open, Request::Credential, Request::Plan] {
        let stranger = connect();
        stranger.send(&request, &[]).unwrap();
        assert_eq!(refusal(&stranger), Refusal::Permission, "{request:?}");
        assert!(stranger.receive::<Response>().is_err(), "it is sent away");
    }
    let twice = connect();
    (0..2).for_each(|_| twice.send(&again, &[]).unwrap());
    assert_eq!(twice.receive::<Response>().unwrap().0, Response::Done);
    assert_eq!(refusal(&twice), Refusal::Protocol, "it is admitted already");

    // Those that say nothing take no place from those that do.
    let silent: Vec<Connection> = (0..200).map(|_| connect()).collect();
    drop(Client::present(&config(&path), &given).unwrap());
    assert!(silent[0].receive::<Response>().is_err(), "the oldest is sent away");
    queue.bind_udp(any(54)).unwrap();
    // As in another root, where the path leads nowhere.
    std::fs::remove_file(return_path(&path)).unwrap();
    drop(Client::present(&config(&path), &given).unwrap());
    drop((queue, stack));
    assert!(Client::present(&config(&path), &given).is_err(), "no stack is there");

    let _other = start([1, 3]);
    assert!(Client::present(&config(&path), &given).is_err(), "another stack's");
}

#[test]
fn killed_programs_leave_nothing_behind() {
    let path = path("killed");
    let stack = stack(&path);
    for round in 0..10u64 {
        let process = Process::start("program", &path);
        // From before its first message to the middle of its traffic.
        std::thread::sleep(Duration::from_millis(round * 17 % 120));
        drop(process);
        let start = Instant::now();
        let queue = AppQueue::connect(&config(&path)).unwrap();
        let binds: Vec<_> = (FIRST..FIRST + SOCKETS).map(|port| Bind::at(any(port))).collect();
        // The listener's thread hears of the end a moment later.
        loop {
            let (opened, result) = queue.open_many(&binds);
            let listens = queue.listen_tcp(any(FIRST), 16, false);
            if result.is_ok() && listens.is_ok() {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "round {round}: {result:?} {listens:?}");
            opened.into_iter().for_each(|socket| queue.close(socket).unwrap());
            listens.into_iter().for_each(|listener| queue.close_listener(listener).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        let by_itself = queue.bind_udp(any(FIRST + SOCKETS)).unwrap();
        queue
            .send_to(by_itself, b"alive", (OURS, FIRST + SOCKETS).into(), SendOptions::default())
            .unwrap();
        assert!(queue.wait(Some(PATIENCE)).unwrap(), "round {round}: nothing came");
    }
    drop(stack);
}

#[test]
fn a_killed_stack_is_an_error_and_the_next_one_serves() {
    let path = path("dead");
    let mut process = Process::start("stack", &path);
    let start = Instant::now();
    let mut queue = loop {
        match AppQueue::connect(&config(&path)) {
            Ok(queue) => break queue,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let socket = queue.bind_udp(any(FIRST)).unwrap();
    let listener = queue.listen_tcp(any(FIRST), 16, false).unwrap();
    for round in 0..6u64 {
        let to = (OURS, FIRST).into();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(round * 13 % 50));
            drop(process);
        });
        let start = Instant::now();
        let ended = loop {
            assert!(start.elapsed() < PATIENCE, "round {round}: the end went unnoticed");
            let _full = queue.send_to(socket, b"to itself", to, SendOptions::default());
            let _full = queue.connect_tcp(to);
            if let Err(error) = queue.wait(Some(Duration::from_millis(5))) {
                break error;
            }
            while let Some(event) = queue.next().unwrap() {
                drop(event);
            }
        };
        assert!(matches!(ended, Error::Disconnected), "{ended}");
        killer.join().unwrap();
        process = Process::start("stack", &path);
        let failed = loop {
            match queue.reconnect() {
                Ok(failed) => break failed,
                Err(error) => assert!(start.elapsed() < PATIENCE, "round {round}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(queue.local_port(socket).unwrap(), FIRST);
        assert_eq!(queue.listener_addr(listener).unwrap().port(), FIRST);
    }
    drop(process);
    let _ = std::fs::remove_file(path);
}
