//! Verification of plans on simulated drivers, of which one does not do what its rules say.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use weever_device::actions::StateFile;
use weever_device::ethtool::{Packet, Profile, SharedDevice, Simulated};
use weever_device::nic::NicSteering;
use weever_graph::Field;
use weever_plan::nic::Nic;
use weever_plan::search::Options;
use weever_steward::{InitialPlan, NicTarget, Origin, Settings, SharedNicSteering, Steward};
use weever_wire::fields::summarize;

use super::*;

const POLICY: &str =
    "[[class]]\nname = \"premium\"\nmatch = \"udp dst port 7001\"\nqueues = { exclusive = 1 }\n";
const FLOWS: &str = "udp 10.0.0.1:5001 -> 10.0.0.2:7001\ntcp 10.0.0.3:9 -> 10.0.0.2:80\n";

/// Puts frames onto the simulated device. Frames of several forms are left to the hash: what a NIC does with them
/// is not of interest here.
struct Cable {
    device: SharedDevice,
    /// Probes that come through before the cable is pulled out.
    left: usize,
    /// How often each of their frames arrives.
    copies: u32,
}

impl Prober for Cable {
    fn send(&mut self, frame: &[u8], count: u32, _: &dyn Fn() -> bool) -> Result<bool, SteerError> {
        let parsed = summarize(frame);
        let field = |field| match field {
            Field::EthType => parsed.ethertype.map(u128::from),
            Field::VlanId => parsed.vlan.map(u128::from),
            Field::Ip4Src => parsed.ip4_src.map(|ip| ip.to_bits().into()),
            Field::Ip4Dst => parsed.ip4_dst.map(|ip| ip.to_bits().into()),
            Field::Ip4Proto => parsed.ip4_proto.map(u128::from),
            Field::L4Src => parsed.l4_src.map(u128::from),
            Field::L4Dst => parsed.l4_dst.map(u128::from),
            _ => None,
        };
        let mut forms = weever_graph::nic::Forms::default();
        for (is, form) in [
            (parsed.ip4_frag == Some(0x2000), weever_graph::nic::Form::First),
            (parsed.ip4_frag.is_some_and(|f| f & 0x1fff != 0), weever_graph::nic::Form::Later),
            (parsed.ip4_proto == Some(4), weever_graph::nic::Form::Tunnels),
            (
                frame[14 + 4 * usize::from(parsed.vlan.is_some())] == 0x46,
                weever_graph::nic::Form::Options,
            ),
            (frame[12..14] == [0x88, 0xa8], weever_graph::nic::Form::Stacked),
        ] {
            if is {
                forms = forms.and(form);
            }
        }
        let packet = Packet { field: &field, forms };
        if self.left == 0 {
            return Ok(true);
        }
        self.left -= 1;
        let mut device = self.device.lock();
        (0..count * self.copies).for_each(|_| device.receive(&packet, 3));
        Ok(true)
    }
}

fn sheet(model: &str, profile: Profile, misdirects: Option<u32>) -> Sheet {
    let lets_go_on = || false;
    sheet_of(POLICY, (model, profile), misdirects, usize::MAX, &lets_go_on)
}

fn sheet_of(
    policy: &str,
    nic: (&str, Profile),
    misdirects: Option<u32>,
    left: usize,
    ends: &dyn Fn() -> bool,
) -> Sheet {
    sheet_with(policy, nic, misdirects, (left, 1), ends)
}

fn sheet_with(
    policy: &str,
    (model, profile): (&str, Profile),
    misdirects: Option<u32>,
    (left, copies): (usize, u32),
    ends: &dyn Fn() -> bool,
) -> Sheet {
    let cable = |device| -> Box<dyn Prober> { Box::new(Cable { device, left, copies }) };
    sheet_over(policy, (model, profile), misdirects, cable, ends)
}

fn sheet_by(model: &str, profile: Profile, prober: impl FnOnce(Cable) -> Box<dyn Prober>) -> Sheet {
    let cable = |device| prober(Cable { device, left: usize::MAX, copies: 1 });
    sheet_over(POLICY, (model, profile), None, cable, &|| false)
}

fn sheet_over(
    policy: &str,
    (model, profile): (&str, Profile),
    misdirects: Option<u32>,
    prober: impl FnOnce(SharedDevice) -> Box<dyn Prober>,
    ends: &dyn Fn() -> bool,
) -> Sheet {
    let nic = Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap();
    let nic = nic.with_queues(4).unwrap();
    let mut device = Simulated::of(profile, "sim0", 4, 2048);
    device.private_flags = [("flow-director-atr".to_string(), true)].into();
    device.misdirects = misdirects;
    let device = SharedDevice::new(device);
    let folder = std::env::temp_dir().join(format!(
        "weever-verify-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = StateFile::of(&folder, 1).unwrap();
    let steering = NicSteering::new(Box::new(device.clone()), file).unwrap();
    let target = NicTarget::new(SharedNicSteering::new(steering), None, false);
    let policy = weever_policy::policy::parse(policy).unwrap();
    let flows = weever_policy::flows::parse(FLOWS.as_bytes()).flows;
    let flows = flows.into_iter().map(|flow| (Origin::File, flow));
    let (planned, _) = InitialPlan::new(policy, flows, nic, Options::default(), None);
    let packets = planned.packets().to_vec();
    let settings = Settings::default();
    let (mut steward, _) = Steward::start("sim0", planned, Box::new(target), settings).unwrap();
    let mut prober = prober(device);
    let sheet = verify(&mut steward, &packets, &mut *prober, [2; 6], Duration::ZERO, ends).unwrap();
    steward.finish().unwrap();
    drop(std::fs::remove_dir_all(folder));
    sheet
}

#[test]
fn drivers_that_do_as_planned_pass_and_one_that_does_not_fails() {
    for (model, profile) in [
        ("82599", Profile::Ixgbe),
        ("x710", Profile::I40e),
        ("e810", Profile::Ice),
        ("connectx5", Profile::Mlx5),
    ] {
        let honest = sheet(model, profile, None);
        assert!(honest.has_passed(), "{model}: {:#?}", honest.lines());
        assert!(honest.count("flow", Verdict::Pass) == 2, "{model}: {:#?}", honest.lines());
        assert_eq!(honest.left_out, 0);
        let planned = honest.rows.iter().find(|row| row.kind == "flow").unwrap();
        let Expected { queues, .. } = planned.expected.as_ref().unwrap();
        let elsewhere = (0..4).find(|queue| !queues.contains(queue)).unwrap();
        let lies = sheet(model, profile, Some(elsewhere));
        assert!(!lies.has_passed(), "{model}: {:#?}", lies.lines());
        let failed = lies.rows.iter().find(|row| row.verdict == Verdict::Fail).unwrap();
        assert_eq!(failed.arrived, Arrival::Queue(elsewhere), "{model}");
        assert!(lies.lines().iter().any(|line| line.contains("fail: udp 10.0.0.1:5001")));
    }
}

/// Switches the driver's own rules on again after each probe, as a driver may that starts anew.
struct Meddler(Cable);

impl Prober for Meddler {
    fn send(
        &mut self,
        frame: &[u8],
        count: u32,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool, SteerError> {
        self.0.device.lock().private_flags.insert("flow-director-atr".into(), true);
        self.0.send(frame, count, ends)
    }
}

#[test]
fn switches_of_the_device_are_read_back() {
    for (meddles, found) in [(false, Some(false)), (true, Some(true))] {
        let sheet = sheet_by("x710", Profile::I40e, |cable| -> Box<dyn Prober> {
            if meddles { Box::new(Meddler(cable)) } else { Box::new(cable) }
        });
        assert_eq!(sheet.total(Verdict::Fail), 0, "{:#?}", sheet.lines());
        assert_eq!(sheet.has_passed(), !meddles, "{:#?}", sheet.lines());
        let names: Vec<_> =
            sheet.switches.iter().map(|s| (s.name.as_str(), s.wanted, s.found)).collect();
        assert_eq!(names, [("ntuple", true, Some(true)), ("flow-director-atr", false, found)]);
        let fails = sheet
            .lines()
            .iter()
            .any(|line| line.contains("fail: flow-director-atr: planned: off; is: on"));
        assert_eq!(fails, meddles);
        let verdict = if meddles { "fail" } else { "pass" };
        assert_eq!(sheet.switches()[1]["verdict"], verdict);
    }
}

const DROPS: &str = "[[class]]\nname = \"bad\"\nmatch = \"udp dst port 7001\"\ndrop = true\n";

#[test]
fn a_sheet_that_shows_nothing_does_not_pass() {
    let nic = ("82599", Profile::Ixgbe);
    let silent = sheet_of(POLICY, nic, None, 0, &|| false);
    assert!(silent.total(Verdict::Fail) == 0 && !silent.has_passed(), "{:#?}", silent.lines());
    assert!(!Sheet::default().has_passed());
    let asked = std::cell::Cell::new(0);
    let ends = || asked.replace(asked.get() + 1) >= 2;
    let ended = sheet_of(POLICY, nic, None, usize::MAX, &ends);
    assert!(ended.ended_early && !ended.has_passed(), "{:#?}", ended.lines());
    assert_eq!(ended.total(Verdict::Pass), 2);
}

#[test]
fn nothing_is_told_where_more_arrives_than_was_sent() {
    let nic = ("82599", Profile::Ixgbe);
    let noisy = sheet_with(POLICY, nic, None, (usize::MAX, 2), &|| false);
    assert!(noisy.rows.iter().all(|row| row.arrived == Arrival::Unclear), "{:#?}", noisy.lines());
    assert!(!noisy.has_passed());
}

#[test]
fn a_filter_that_takes_what_is_to_be_spread_fails() {
    let spread = Expected { queues: vec![0, 1], dropped: false, is_spread: true };
    let verdict = |arrived, by_filter| judge(Some(&spread), &arrived, by_filter);
    assert_eq!(verdict(Arrival::Queue(1), true), Verdict::Fail);
    assert_eq!(verdict(Arrival::Queue(1), false), Verdict::Pass);
    assert_eq!(verdict(Arrival::Spread, true), Verdict::Pass);
}

/// Starts a peer's side; returns the other end once it was taken for one, and what the peer's side does meanwhile.
fn accepted<T: Send + 'static>(
    peer: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> (Peer, JoinHandle<T>) {
    let mut started = None;
    let ready = |at| started = Some(thread::spawn(move || peer(at)));
    let accepted = Peer::accept("127.0.0.1:0".parse().unwrap(), ready).unwrap();
    (accepted, started.unwrap())
}

#[test]
fn who_does_not_say_that_it_sends_probes_is_no_peer() {
    let (_peer, strangers) = accepted(|at| {
        for words in ["", "GET / HTTP/1.1\r\n\r\n", "{\"prober\": 0}\n"] {
            let mut stranger = TcpStream::connect(at).unwrap();
            stranger.write_all(words.as_bytes()).unwrap();
            stranger.shutdown(Shutdown::Write).unwrap();
            // It is closed, perhaps before all was read.
            drop(stranger.read(&mut [0; 8]));
        }
        let mut peer = TcpStream::connect(at).unwrap();
        peer.write_all(b"{\"prober\": 1}\n").unwrap();
        peer
    });
    strangers.join().unwrap();
}

#[test]
fn a_signal_ends_the_wait_for_a_silent_peer() {
    let (mut peer, silent) = accepted(|at| {
        let mut stream = TcpStream::connect(at).unwrap();
        // Part of an answer, and no more.
        stream.write_all(b"{\"prober\": 1}\n{\"sent\": ").unwrap();
        stream
    });
    let asked = std::cell::Cell::new(0);
    let ends = || asked.replace(asked.get() + 1) >= 2;
    assert!(!peer.send(&[0; 60], 1, &ends).unwrap());
    drop(silent.join().unwrap());
}

#[test]
fn a_drop_passes_only_between_frames_that_arrive() {
    let nic = ("82599", Profile::Ixgbe);
    let whole = sheet_of(DROPS, nic, None, usize::MAX, &|| false);
    assert!(whole.has_passed(), "{:#?}", whole.lines());
    let is_drop = |row: &&Row| row.expected.as_ref().is_some_and(|e| e.queues.is_empty());
    let first = whole.rows.iter().find(is_drop).unwrap();
    assert_eq!((first.kind, first.verdict), (FLOW, Verdict::Pass));
    for left in [0, 1] {
        let pulled = sheet_of(DROPS, nic, None, left, &|| false);
        assert!(pulled.rows.iter().filter(is_drop).all(|row| row.verdict == Verdict::NotTold));
        assert!(!pulled.has_passed(), "{:#?}", pulled.lines());
    }
}

#[test]
fn only_probes_are_sent_and_only_to_one_station() {
    let flow = &weever_policy::flows::parse(FLOWS.as_bytes()).flows[0].parts[0];
    let frame = Frame::of(flow).unwrap();
    let mut station = None;
    for (kind, neighbour) in KINDS {
        let Some(probe) = neighbour(&frame) else { continue };
        assert!(exchange::is_probe(&probe.octets([2; 6], SENDER), &mut station), "{kind}");
    }
    assert_eq!(station, Some([2; 6]));
    let good = frame.octets([2; 6], SENDER);
    let with = |at: usize, octet: u8| {
        let mut frame = good.clone();
        frame[at] = octet;
        frame
    };
    let long = [&good[..], &[0; 1500]].concat();
    let arp = [&good[..12], &[0x08, 0x06], &good[14..]].concat();
    for wrong in [with(0, 3), with(5, 3), with(11, 9), arp, good[..59].to_vec(), long] {
        assert!(!exchange::is_probe(&wrong, &mut Some([2; 6])), "{wrong:?}");
    }
    assert!(!exchange::is_probe(&frame.octets([0xff; 6], SENDER), &mut None));
    let asked = |count: u64| exchange::probe(&json!({ "frame": "00ff", "count": count }));
    assert_eq!(asked(1000), Some((vec![0, 255], 1000)));
    assert_eq!(asked(1001), None);
}

#[test]
fn words_of_the_peer_are_harmless_on_a_terminal() {
    assert_eq!(exchange::shown("no\x1b[2J"), "\"no\\u{1b}[2J\"");
    assert_eq!(exchange::shown(&"a".repeat(9000)).len(), 202);
}
