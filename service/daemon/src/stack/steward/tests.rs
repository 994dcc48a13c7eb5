//! A stack on a simulated NIC.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
use weever_device::actions::StateFile;
use weever_device::ethtool::{InjectedFailure, SharedDevice, Simulated};
use weever_link::Link;
use weever_link::memory::{MemoryConfig, MemoryLink, pair};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, Steering};
use weever_packet::{Pool, PoolConfig};
use weever_service_api::{Flows, Queues};
use weever_testbed::{Fixture, require_net_admin};

use super::{PolicySetup, PreparedNic, on_nic};
use crate::config::{Config, Interface, NicChoice, Share};
use crate::stack::device::links::{self, Device};
use crate::stack::{PolicyError, Stack, start};

const NAME: &str = "sim0";
/// Both services at the second queue, which gets nothing else.
const POLICY: &str = "
[[class]]
name = \"served\"
match = \"udp dst portrange 7-9\"
queues = { only = [1] }
";

/// A device, and a folder for its record file.
struct Scene {
    device: SharedDevice,
    folder: PathBuf,
}

impl Scene {
    fn new(device: Simulated) -> Scene {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("weever-steward-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Scene { device: SharedDevice::new(device), folder }
    }

    fn config(&self, policy: &str, flows: Option<&str>) -> Config {
        let mut interface = Interface::new(NAME, vec!["10.77.0.10/24".parse().unwrap()]);
        (interface.share, interface.nic) = (Share::None, NicChoice::Auto);
        let mut config = Config::of(vec![interface]);
        config.drop_privileges = false;
        config.services.echo = Some(7);
        config.probe = false;
        let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        config.cores = vec![0, last.min(1)];
        let write = |name: &str, text: &str| {
            let path = self.folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        config.policy = Some(write("policy.toml", policy));
        config.flows = flows.map(|flows| write("flows.txt", flows));
        config
    }

    fn file(&self) -> StateFile {
        StateFile::of(&self.folder.join("state"), 7).unwrap()
    }

    fn intent(&self, config: &Config) -> Result<PolicySetup, PolicyError> {
        let device = self.device.clone();
        let intent = PolicySetup::with(config, &mut move |_| Ok(Box::new(device.clone())));
        intent.map(|intent| intent.expect("there is a policy"))
    }

    /// As opening a device does it, on a link in memory.
    fn start(&self, config: Config) -> Result<(Stack, MemoryLink), PolicyError> {
        let intent = self.intent(&config)?;
        let sorter = intent.model(NAME).unwrap();
        assert!(sorter.is_hardware);
        let ready = PreparedNic::with(Box::new(self.device.clone()), self.file(), &intent, sorter)?;
        let channels = self.device.lock().channels.receiving();
        assert_eq!((channels, self.rules()), (2, 0), "queues before sockets, rules after them");
        let memory = MemoryConfig { waitable: true, queues: 2, ..MemoryConfig::default() };
        let (ours, theirs) =
            pair(&MemoryConfig { names: [NAME, "far"].map(Into::into), ..memory }).unwrap();
        let pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
        let steward = (ready, None);
        Ok((assembled(Box::new(ours), steward, pool, config)?, theirs))
    }

    fn rules(&self) -> usize {
        self.device.lock().rules.len()
    }

    /// The device's state as its users see it.
    fn seen(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let d = self.device.lock().clone();
        (d.channels, d.ntuple, d.rules, d.spreading, d.fields)
    }

    /// From now on changes fail.
    fn fail(&self, after: usize, count: usize, errno: i32) {
        let mut device = self.device.lock();
        let at = device.changes + after;
        device.failing = Some(InjectedFailure { at, count, errno });
    }
}

/// The rest of opening, and of starting.
fn assembled(
    link: Box<dyn Link>,
    (ready, steering): (PreparedNic, Option<&Steering>),
    pool: Pool,
    config: Config,
) -> Result<Stack, PolicyError> {
    let undone_later = ready.steering.clone();
    let steward = on_nic(&link.info().name, ready, steering)?;
    let link = links::holding(link, Some(undone_later), None);
    let device = Device { link, filter: None, steward: Some(steward), threads: None };
    Ok(start::assemble(vec![device], None, pool, config, Default::default()).unwrap())
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A device with four queues and a driver that has a model.
fn nic() -> Simulated {
    let driver = "mlx5_core".into();
    Simulated { driver, chooses: true, ..Simulated::new(NAME, 4, 64) }
}

fn set(stack: &Stack, text: &str) {
    stack.shared.assign(&[text.parse().unwrap()]).unwrap();
}

fn queues(stack: &Stack) -> Queues {
    stack.shared.queues(100)
}

fn flows(stack: &Stack) -> Flows {
    stack.shared.flows(100)
}

/// How much of the graph the second worker runs.
fn nodes(stack: &Stack) -> usize {
    stack.shared.host.publisher.sizes()[1]
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const FOREVER: usize = usize::MAX / 2;

#[test]
fn a_plan_is_on_the_nic_while_the_stack_runs_and_follows_its_flows() {
    let scene = Scene::new(nic());
    let before = scene.seen();
    let (stack, _far) = scene.start(scene.config(POLICY, None)).unwrap();
    assert_eq!(scene.rules(), 2, "UDP over IPv4 and IPv6: {:?}", scene.device.lock().rules);
    {
        let device = scene.device.lock();
        let to = |queue| device.rules.values().all(|rule| rule.to_options().contains(queue));
        assert!(to("action 1") && device.ntuple, "{:?}", device.rules);
        assert!(device.spreading[&0].table.iter().all(|queue| *queue == 0));
    }
    assert!(scene.file().path().exists(), "a later start can undo the changes of a killed process");
    set(&stack, "services.discard=9");
    wait("a flow has come", || scene.rules() == 4);
    set(&stack, "services.discard=none");
    wait("a flow has gone", || scene.rules() == 2);
    let told = queues(&stack);
    assert!(told.problems.is_empty(), "{told:?}");
    let row = &told.queues[1];
    assert_eq!((row.filters.len(), row.other, row.classes[0].flows), (2, false, 1));
    assert!(row.filters.iter().all(|filter| filter.hits.is_none()), "nobody counts: {row:?}");
    let listed = flows(&stack).flows;
    assert_eq!((listed[0].origin.as_str(), &listed[0].queues[..]), ("service", &[1][..]));
    assert_eq!((listed[0].packets, listed[0].rate), (None, None));
    assert_eq!(stack.stop().failure, None);
    assert_eq!(scene.seen(), before);
    assert!(!scene.file().path().exists());
    // Also when it is dropped without a stop.
    drop(scene.start(scene.config(POLICY, None)).unwrap());
    assert_eq!(scene.seen(), before);
}

#[test]
fn a_change_that_fails_half_way_is_taken_back_reported_and_tried_again() {
    let scene = Scene::new(nic());
    let (stack, _far) = scene.start(scene.config(POLICY, None)).unwrap();
    let before = scene.seen();
    scene.fail(1, 1, libc::EPERM);
    set(&stack, "services.discard=9");
    wait("it is reported", || !queues(&stack).problems.is_empty());
    let problem = &queues(&stack).problems[0];
    assert!(problem.starts_with("sim0: ") && problem.contains("CAP_NET_ADMIN"), "{problem}");
    assert_eq!(scene.seen(), before, "one of two rules was taken, and taken back");
    wait("it is tried again", || scene.rules() == 4);
    wait("all is well", || queues(&stack).problems.is_empty());
}

#[test]
fn a_rule_that_the_driver_refuses_is_planned_around() {
    let near = "objective = \"balance\"\n[locality]\ncores = [0, 1]\n";
    let flows_of = "udp dst port 5001 core=1\nudp dst port 5002 core=1\n";
    let scene = Scene::new(nic());
    let (stack, _far) = scene.start(scene.config(near, Some(flows_of))).unwrap();
    let all = scene.rules();
    assert!(all > 2, "{:?}", scene.device.lock().rules);
    drop(stack);
    assert_eq!(scene.rules(), 0);
    scene.device.lock().size = 2;
    let (stack, _far) = scene.start(scene.config(near, Some(flows_of))).unwrap();
    assert_eq!(scene.rules(), 2, "as many as there is room for");
    assert!(queues(&stack).problems.is_empty(), "nothing is wrong with that");
    let filters: usize = flows(&stack).flows.iter().map(|flow| flow.filters.len()).sum();
    assert_eq!(filters, 2, "{:?}", flows(&stack));
}

#[test]
fn a_policy_that_a_driver_does_not_let_be_is_carried_out_as_far_as_it_goes_and_reported() {
    let scene = Scene::new(nic());
    let (stack, _far) = scene.start(scene.config(POLICY, None)).unwrap();
    scene.fail(1, 1, libc::EBUSY);
    set(&stack, "services.discard=9");
    wait("it is reported", || !queues(&stack).problems.is_empty());
    let problem = &queues(&stack).problems[0];
    assert!(problem.starts_with("sim0: the policy is not satisfied without"), "{problem}");
    assert!(problem.contains("dst-port 9"), "{problem}");
    let filters: Vec<usize> = flows(&stack).flows.iter().map(|flow| flow.filters.len()).collect();
    assert_eq!((scene.rules(), filters), (2, vec![2, 0]), "the other service keeps its own");
    set(&stack, "services.discard=none");
    wait("it is satisfied again", || queues(&stack).problems.is_empty());
    assert_eq!(scene.rules(), 2);
}

#[test]
fn workers_know_what_comes_before_the_nic_does_and_what_goes_until_it_has_gone() {
    let scene = Scene::new(nic());
    let mut config = scene.config(POLICY, None);
    config.services.echo = None;
    let (stack, _far) = scene.start(config).unwrap();
    let little = nodes(&stack);
    assert_eq!((scene.rules(), little < 12), (0, true), "{little} nodes for no flow");
    scene.fail(0, FOREVER, libc::EPERM);
    set(&stack, "services.echo=7");
    wait("it is tried", || !queues(&stack).problems.is_empty());
    let wide = nodes(&stack);
    assert_eq!((scene.rules(), wide > little + 5), (0, true), "{little}, then {wide} nodes");
    scene.device.lock().failing = None;
    wait("the rules are there", || scene.rules() == 2 && queues(&stack).problems.is_empty());
    assert!(nodes(&stack) > little + 5);
    scene.fail(0, FOREVER, libc::EPERM);
    set(&stack, "services.echo=none");
    wait("it is tried", || !queues(&stack).problems.is_empty());
    assert_eq!((scene.rules(), nodes(&stack) > little + 5), (2, true), "packets may still come");
    scene.device.lock().failing = None;
    wait("the rules are gone", || scene.rules() == 0 && queues(&stack).problems.is_empty());
    assert_eq!(nodes(&stack), little);
}

#[test]
fn a_nic_that_is_gone_is_reported_once_and_needs_no_undoing() {
    let scene = Scene::new(nic());
    let (stack, _far) = scene.start(scene.config(POLICY, None)).unwrap();
    scene.device.lock().gone = true;
    set(&stack, "services.discard=9");
    wait("it is reported", || !queues(&stack).problems.is_empty());
    let problem = &queues(&stack).problems[0];
    assert!(problem.contains("there is no device `sim0` (any more)"), "{problem}");
    assert_eq!(stack.stop().failure, None);
    assert!(!scene.file().path().exists(), "what gets its number later is another device");
}

#[test]
fn a_stack_does_not_start_on_a_nic_that_does_not_take_what_the_policy_needs() {
    for (errno, what) in [(libc::EBUSY, "refuses rules"), (libc::EPERM, "CAP_NET_ADMIN")] {
        let scene = Scene::new(nic());
        let before = scene.seen();
        // The driver's own table, number of queues, table, switch; then the first rule.
        scene.fail(4, 1, errno);
        let error = scene.start(scene.config(POLICY, None)).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, PolicyError::Hardware { .. }), "{text}");
        assert!(text.contains("sim0") && text.contains(what) && text.contains("xdp"), "{text}");
        assert_eq!(scene.seen(), before);
        assert!(!scene.file().path().exists());
    }
}

#[test]
fn what_takes_no_rules_is_named_with_the_remedy_or_sorted_by_the_program() {
    let scene = Scene::new(Simulated { driver: "veth".into(), size: 0, ..nic() });
    let mut config = scene.config(POLICY, None);
    assert!(!scene.intent(&config).unwrap().model(NAME).unwrap().is_hardware);
    config.interfaces[0].nic = NicChoice::Model("82599");
    let error = scene.intent(&config).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, PolicyError::NoRules { .. }) && !error.is_about_files(), "{text}");
    assert!(text.contains("sim0 takes no steering rules") && text.contains("veth"), "{text}");
    assert!(text.contains("use nic = \"xdp\""), "{text}");
    config.interfaces[0].nic = NicChoice::Xdp;
    assert!(!scene.intent(&config).unwrap().model(NAME).unwrap().is_hardware);
}

/// The veth behind the sockets ignores the rules, which are on a device that is not there.
#[test]
fn flows_are_seen_behind_the_nic_and_get_rules_there() {
    require_net_admin!();
    let policy = POLICY.replace("dst portrange 7-9", "src port 4000");
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    let scene = Scene::new(Simulated { device: "left0".into(), ..nic() });
    let mut config = scene.config(&policy, None);
    (config.interfaces[0].dev, config.interfaces[0].name) = ("left0".into(), "left0".into());
    let intent = scene.intent(&config).unwrap();
    let sorter = intent.model("left0").unwrap();
    let ready =
        PreparedNic::with(Box::new(scene.device.clone()), scene.file(), &intent, sorter).unwrap();
    let pool = Pool::new(PoolConfig { frames: 8192, ..PoolConfig::default() }).unwrap();
    let stack = net.left.run(|| {
        let settings = AfXdpConfig::new("left0", pool.clone());
        let link = AfXdp::open(&AfXdpConfig { classifies: true, ..settings }).unwrap();
        assert_eq!(link.info().queues, 2, "one socket for each queue");
        let steering = std::sync::Arc::clone(link.steering());
        let steward = (ready, Some(&*steering));
        assembled(Box::new(link), steward, pool, config).unwrap()
    });
    assert_eq!(scene.rules(), 0);
    let client = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 4000))).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    client.connect("10.77.0.10:7").unwrap();
    let mut back = 0;
    wait("the flow gets a rule", || {
        let sent = client.send(&[1; 20]).is_ok();
        back += usize::from(sent && client.recv(&mut [0; 30]).is_ok());
        scene.rules() == 1
    });
    assert!(back > 0, "the stack answers");
    let seen = || {
        client.send(&[1; 20]).unwrap();
        drop(client.recv(&mut [0; 30]));
        flows(&stack).flows.into_iter().find(|flow| flow.origin == "traffic")
    };
    wait("its packets are counted", || {
        seen().is_some_and(|flow| flow.packets > Some(0) && flow.rate.is_some())
    });
    assert_eq!(seen().unwrap().queues, [1]);
    assert_eq!(stack.stop().failure, None);
    assert_eq!(scene.rules(), 0);
}

/// Sends segments and reads their echoes.
fn echoes(stream: &mut TcpStream) {
    for number in 0..40u32 {
        stream.write_all(&number.to_be_bytes()).unwrap();
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, number.to_be_bytes());
    }
}

/// The state of connections has gone where the filters were to send them, and they stay where they are. The
/// veth takes no part in that: it decides by the sender's core.
#[test]
fn connections_go_on_when_the_filters_that_would_move_them_fail() {
    require_net_admin!();
    let policy = POLICY.replace("udp dst portrange 7-9", "tcp dst port 7");
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    let scene = Scene::new(Simulated { device: "left0".into(), ..nic() });
    let mut config = scene.config(&policy, None);
    (config.services.echo, config.services.tcp_echo) = (None, Some(7));
    (config.interfaces[0].dev, config.interfaces[0].name) = ("left0".into(), "left0".into());
    let intent = scene.intent(&config).unwrap();
    let model = intent.model("left0").unwrap();
    let ready =
        PreparedNic::with(Box::new(scene.device.clone()), scene.file(), &intent, model).unwrap();
    let pool = Pool::new(PoolConfig { frames: 8192, ..PoolConfig::default() }).unwrap();
    let stack = net.left.run(|| {
        let settings = AfXdpConfig::new("left0", pool.clone());
        let link = AfXdp::open(&settings).unwrap();
        assembled(Box::new(link), (ready, None), pool, config).unwrap()
    });
    wait("the rules are there", || scene.rules() == 2);
    let connect = || {
        let to = "10.77.0.10:7".parse().unwrap();
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(20)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = net.right.run(|| (0..4).map(|_| connect()).collect());
    streams.iter_mut().for_each(echoes);
    // One of these is away from where the connections are.
    for (port, rules) in [("none", 0), ("7", 2)] {
        scene.fail(0, FOREVER, libc::EPERM);
        set(&stack, &format!("services.tcp-echo={port}"));
        wait("it is tried", || !queues(&stack).problems.is_empty());
        streams.iter_mut().for_each(echoes);
        scene.device.lock().failing = None;
        wait("the rules are so", || scene.rules() == rules && queues(&stack).problems.is_empty());
        streams.iter_mut().for_each(echoes);
    }
    assert_eq!(stack.stop().failure, None);
}
