//! A bridge of the kernel's that watches IGMP and MLD, and asks: the members of each group are seen
//! in its database.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use weever_daemon::Stack;
use weever_daemon::config::{Interface, Share};
use weever_service_api::{Client, SetRequest};
use weever_testbed::{Namespace, Veth, require_net_admin};

use super::tool::{await_that, is_there, run};
use crate::common::kernel::{GROUP, GROUP6, WEEVER, WEEVER6, config, prefix, start};

/// A bridge with a port to the stack. It asks every second (in hundredths, as all of these), and
/// forgets members that have not answered for four.
fn bridge(stack: &Namespace) -> Namespace {
    let lan = Namespace::new().unwrap();
    run(&lan, "ip link add br0 type bridge mcast_snooping 1");
    Veth::create(&lan, "port0", stack, "right0", 1).unwrap();
    run(&lan, "ip link set port0 master br0");
    lan.speak_ipv6().unwrap();
    let times = "mcast_query_interval 100 mcast_startup_query_interval 100 \
                 mcast_membership_interval 400 mcast_query_response_interval 50 \
                 mcast_last_member_interval 50 mcast_querier_interval 500";
    let kind = "mcast_igmp_version 3 mcast_mld_version 2 mcast_querier 1";
    run(&lan, &format!("ip link set br0 type bridge {kind} {times}"));
    run(&lan, "ip address add 10.77.0.1/24 dev br0");
    run(&lan, "ip link set br0 type bridge mcast_query_use_ifaddr 1");
    run(&lan, "ip link set br0 up");
    lan
}

/// The bridge's entries of the groups behind the port.
fn known(lan: &Namespace) -> String {
    let output = run(lan, "bridge -d mdb show dev br0");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.contains("port port0")).collect::<Vec<_>>().join("\n")
}

fn has(lan: &Namespace, group: impl ToString) -> bool {
    let wanted = format!("grp {} ", group.to_string());
    known(lan).contains(&wanted)
}

fn set(stack: &Stack, assignment: &str) {
    let mut client = Client::connect(stack.control_path().unwrap()).unwrap();
    client.call(&assignment.parse::<SetRequest>().unwrap()).unwrap();
}

/// The group of all stations whose address ends like this one (RFC 4291 §2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let prefix = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();
    Ipv6Addr::from_bits(prefix | address.to_bits() & 0xff_ffff)
}

fn interface(share: Share) -> Interface {
    let mut interface = Interface::new("right0", vec![prefix(WEEVER, 24), prefix(WEEVER6, 64)]);
    interface.share = share;
    interface
}

/// For so long that it would have been forgotten, had nobody answered the bridge's questions.
fn stays(lan: &Namespace, groups: &[String]) {
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        for group in groups {
            assert!(has(lan, group), "{group} is not in\n{}", known(lan));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn a_bridge_sees_who_is_in_which_group(share: Share) {
    let inside = Namespace::new().unwrap();
    let lan = bridge(&inside);
    let stack = start(&inside, config(vec![interface(share)]));
    // Without any group that somebody has joined: those by which neighbours are found.
    let own = solicited_node(WEEVER6).to_string();
    await_that("in the group of its address", || has(&lan, &own));
    stays(&lan, std::slice::from_ref(&own));
    set(&stack, &format!("interface.right0.groups+={GROUP}"));
    set(&stack, &format!("interface.right0.groups+={GROUP6}"));
    let all = [own, GROUP.to_string(), GROUP6.to_string()];
    await_that("in all groups", || all.iter().all(|group| has(&lan, group)));
    stays(&lan, &all);
    // Leaving is said, and the bridge asks whether anybody else is left.
    set(&stack, &format!("interface.right0.groups-={GROUP}"));
    set(&stack, &format!("interface.right0.groups-={GROUP6}"));
    await_that("left", || !has(&lan, GROUP) && !has(&lan, GROUP6));
    assert!(has(&lan, &all[0]));
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_bridge_sees_who_is_in_which_group_of_a_device() {
    require_net_admin!();
    if is_there("ip") && is_there("bridge") {
        a_bridge_sees_who_is_in_which_group(Share::None);
    }
}

/// The bridge's questions are for all hosts and all nodes: the kernel gets them too.
#[test]
fn a_bridge_sees_who_is_in_which_group_beside_a_kernel() {
    require_net_admin!();
    if is_there("ip") && is_there("bridge") {
        a_bridge_sees_who_is_in_which_group(Share::Address);
    }
}
