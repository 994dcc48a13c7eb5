//! Wireshark's dissectors check the packets that weever sends.

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::kernel::*;
use weever_link::pcap::{Format, Interface, Record, Writer};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_testbed::require_net_admin;

/// Any fault of a packet by itself; retransmissions and the like are left out.
const WRONG: &str = "_ws.malformed || _ws.short || ip.checksum.status == 0 || udp.checksum.status == 0 \
    || icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || igmp.checksum.status == 0 \
    || arp.duplicate-address-detected || _ws.expert.severity == \"Error\"";
/// Preferences: checksums are looked at, those of datagrams that came in pieces too.
const PREFERENCES: [&str; 3] =
    ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.defragment:TRUE"];

/// The field that `tshark` prints for the packets of a capture that a filter picks.
fn tshark(file: &Path, filter: &str, field: &str) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args([
        "-Y",
        filter,
        "-T",
        "fields",
        "-e",
        "frame.number",
        "-e",
        field,
    ]);
    PREFERENCES.iter().for_each(|preference| {
        command.args(["-o", preference]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn has_tshark() -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok();
    if !there {
        println!("skipped: needs tshark");
    }
    there
}

fn write(file: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::new(Vec::new(), Format::Pcapng, "weever's tests").unwrap();
    let interface = writer.interface(&Interface::ethernet("right0")).unwrap();
    for (time, frame) in (0..).step_by(1_000_000).zip(frames) {
        writer.write(&Record { interface, ..Record::whole(time, frame) }).unwrap();
    }
    std::fs::write(file, writer.into_inner()).unwrap();
}

/// The packets that weever sends while the kernel at the other end does everything that it can
/// think of, as they leave the wire there.
fn sent_by_weever() -> Vec<Vec<u8>> {
    let net = wire();
    // Neither kernel leaves a checksum to the next device: quoted and captured packets are as they
    // would be on a cable.
    for end in [&net.veth.left, &net.veth.right] {
        end.set_checksum_offload(false).unwrap();
    }
    let ears = net.left.run(|| PacketSocket::open("left0", Protocol::All)).unwrap();
    ears.set_receive_buffer(64 << 20).unwrap();
    let mut interface = interface();
    interface.dhcp = true;
    interface.slaac = true;
    let stack = start(&net.right, config(vec![interface]));
    let (over, mac) = (AtomicBool::new(false), net.veth.right.mac);
    let frames = std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let (mut frames, mut buffer) = (Vec::new(), vec![0; 4096]);
            loop {
                match ears.receive(&mut buffer, Duration::from_millis(50)).unwrap() {
                    Some(n) if buffer[6..12] == mac => frames.push(buffer[..n].to_vec()),
                    Some(_) => {}
                    None if over.load(Ordering::Acquire) => return frames,
                    None => {}
                }
            }
        });
        for to in ALL {
            datagrams(&net.veth.left, to);
            pings(&net.veth.left, to);
            errors(&net.veth.left, to);
        }
        over.store(true, Ordering::Release);
        listener.join().unwrap()
    });
    assert_eq!(stack.stop().failure, None);
    frames
}

#[test]
fn no_packet_is_malformed() {
    require_net_admin!();
    if !has_tshark() {
        return;
    }
    let file = common::temporary_path().with_extension("pcapng");
    let frames = sent_by_weever();
    write(&file, &frames);
    let wrong = tshark(&file, WRONG, "_ws.expert.message");
    assert!(
        wrong.is_empty(),
        "{} of {}: {:?}",
        wrong.len(),
        frames.len(),
        &wrong[..wrong.len().min(9)]
    );
    // It has seen them all, of every kind.
    let all = tshark(&file, "frame", "frame.protocols");
    assert_eq!(all.len(), frames.len());
    let kinds: BTreeSet<&str> = all.iter().flat_map(|line| line.split([':', '\t'])).collect();
    for kind in ["arp", "icmp", "icmpv6", "igmp", "udp", "dhcp", "ipv6.fraghdr"] {
        assert!(kinds.contains(kind), "no {kind} among {kinds:?}");
    }
    for (kind, filter) in [
        ("fragments", "ip.flags.mf == 1"),
        ("reports of MLDv2", "icmpv6.type == 143"),
        ("neighbour solicitations", "icmpv6.type == 135"),
        ("neighbour advertisements", "icmpv6.type == 136"),
        ("router solicitations", "icmpv6.type == 133"),
        ("errors", "icmp.type == 3 && icmp.code == 2"),
        ("errors of IPv6", "icmpv6.type == 4"),
    ] {
        assert!(!tshark(&file, filter, "frame.protocols").is_empty(), "no {kind}");
    }
    // And would have told.
    let broken = |of: IpAddr, at: usize| {
        let kind: [u8; 2] = if of.is_ipv4() { [8, 0] } else { [0x86, 0xdd] };
        let mut frame =
            frames.iter().rev().find(|f| f[12..14] == kind && f.len() < 1400).unwrap().clone();
        frame[at] ^= 0x55;
        frame
    };
    let last = |frame: &Vec<u8>| frame.len() - 1;
    let four = broken(ALL[0], 24);
    let six = broken(ALL[1], 60);
    let mut short = frames.iter().find(|f| f[12..14] == [8, 6]).unwrap().clone();
    short.truncate(last(&short).min(30));
    write(&file, &[four, six, short]);
    assert_eq!(tshark(&file, WRONG, "frame.protocols").len(), 3);
    std::fs::remove_file(&file).unwrap();
}
