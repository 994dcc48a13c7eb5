//! Compares the NIC models with the known properties of the devices.

use weever_graph::Field;
use weever_graph::nic::{Failure, FlowType, MaskScope, RssFields, TableOrder};
use weever_models::{NICS, nic, nic_of_driver, nics};
use weever_plan::flow::Conj;
use weever_plan::nic::{Nic, Table};

fn silicon(name: &str) -> Nic {
    Nic::of(&nic(name).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn linux(name: &str) -> Nic {
    Nic::linux_of(&nic(name).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn table<'n>(nic: &'n Nic, name: &str) -> &'n Table {
    nic.tables.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn names(nic: &Nic) -> Vec<&str> {
    nic.tables.iter().map(|t| t.name.as_str()).collect()
}

#[test]
fn every_model_is_a_pipeline_and_says_where_it_comes_from() {
    for (name, model) in NICS {
        assert!(silicon(name).rss.is_some(), "{name}");
        assert!(linux(name).queues.count() <= silicon(name).queues.count(), "{name}");
        assert!(model.source.contains("// Sources: "), "{name}");
        // The program that weever generates and the kernel's interface are no hardware.
        let verified = ["tap", "veth", "xdp"].contains(name)
            || model.source.contains("// Not verified on hardware.");
        assert!(verified, "{name}");
    }
    assert!(nics().count() >= 10);
    assert!(nic("I82599").unwrap_err().to_string().contains("there are 82576, 82599, connectx5"));
}

/// `--nic auto` and `--model auto` find a model by a driver that its text names. Two models of one driver
/// would hide each other.
#[test]
fn every_model_with_filters_names_its_drivers_and_is_found_by_them() {
    for (name, _) in NICS.iter().filter(|(name, _)| !linux(name).tables.is_empty()) {
        let graph = nic(name).unwrap();
        let named: Vec<&str> = graph.iter().filter_map(|(_, node)| node.param("drivers")).collect();
        let drivers: Vec<&str> = named.iter().flat_map(|names| names.split_whitespace()).collect();
        assert!(!drivers.is_empty(), "{name}: add `attr \"drivers=…\"` where packets enter");
        for driver in drivers {
            assert_eq!(nic_of_driver(driver), Some(*name), "{driver}");
        }
    }
    assert_eq!(nic_of_driver("veth"), None);
}

#[test]
fn intel_82599() {
    let nic = silicon("82599");
    assert_eq!(names(&nic), ["RxEtherType", "Rx5Tuple", "RxFlowDirector"]);
    assert_eq!(table(&nic, "Rx5Tuple").model.capacity.entries, 128);
    assert_eq!(table(&nic, "Rx5Tuple").model.order, TableOrder::Priority { lo: 1, hi: 7 });
    assert_eq!(table(&nic, "RxFlowDirector").model.mask_scope, MaskScope::Link);
    assert_eq!((nic.queues.count(), nic.rss.as_ref().unwrap().queues.count()), (128, 16));
    let rss = nic.rss.unwrap();
    assert_eq!(rss.default_fields(FlowType::Udp4), RssFields::Addresses);
    // Linux hides the 5-tuple filters, and supports no rules for IPv6.
    let seen = linux("82599");
    assert_eq!((names(&seen), seen.queues.count()), (vec!["RxFlowDirector"], 63));
    assert!(seen.tables[0].model.flow_types.iter().all(|t| t.ip_version() == Some(4)));
}

#[test]
fn solarflare_sfc9020() {
    let nic = silicon("sfc9020");
    assert_eq!(nic.queues.count(), 1024);
    assert_eq!((nic.tables[0].pool, nic.tables[1].pool, nic.capacity(1)), (0, 0, 8192));
    assert_eq!(nic.tables[0].model.fails, Failure::Hash { rows: 8192, probes: 200 });
    assert_eq!(table(&nic, "RxMacFull").model.capacity.entries, 512);
    let seen = linux("sfc9020");
    assert_eq!(seen.queues.count(), 32);
    assert!(seen.tables.iter().all(|t| t.model.actions.drop));
    // `sfc` drives later NICs, with other tables.
    assert_eq!((nic_of_driver("sfc_siena"), nic_of_driver("sfc")), (Some("sfc9020"), None));
}

#[test]
fn mellanox_connectx5() {
    let (nic, seen) = (silicon("connectx5"), linux("connectx5"));
    assert_eq!(table(&nic, "RxNetwork").model.order, TableOrder::MoreFields);
    assert_eq!((nic.capacity(0), nic.locations, seen.locations), (448_000, None, Some(1024)));
    assert!(seen.tables.iter().all(|t| t.model.actions.drop));
    let spreads = |name: &str, t| table(&seen, name).model.spreads(Some(t));
    assert!(spreads("RxNetwork", FlowType::Udp4) && spreads("RxNetwork", FlowType::Tcp6));
    assert!(!spreads("RxNetwork", FlowType::Ip4) && !spreads("RxEthernet", FlowType::Ether));
    assert_eq!(nic.rss.unwrap().contexts, 15);
}

#[test]
fn virtio_net_has_no_filters() {
    assert!(silicon("virtio_net").tables.is_empty());
}

#[test]
fn the_xdp_program_is_no_ethtool_matter() {
    let nic = silicon("xdp");
    assert_eq!(names(&nic), ["RxExact", "RxMasked"]);
    assert!(table(&nic, "RxMasked").model.granularity(Field::TcpFlags).is_some());
    assert!(linux("xdp").tables.is_empty());
}

#[test]
fn intel_x710_and_e810_have_a_mask_per_flow_type() {
    for (name, tables, entries) in [("x710", 1, 7680), ("e810", 2, 16384)] {
        let seen = linux(name);
        assert_eq!(names(&seen), ["RxFlowDirector", "RxEthernet"][..tables], "{name}");
        assert_eq!(seen.tables[0].model.mask_scope, MaskScope::FlowType, "{name}");
        assert_eq!(seen.capacity(0), entries, "{name}");
    }
    let e810 = silicon("e810");
    let capacity = &table(&e810, "RxFlowDirector").model.capacity;
    assert_eq!(capacity.cost(None, |said| said == "a tunnel port is open"), 2);
    assert_eq!(capacity.cost(None, |_| false), 1);
}

/// Drivers that take the test of a tag and drop it again: no rule may need it.
#[test]
fn a_test_that_a_driver_drops_is_not_offered() {
    let offers = |name: &str, table: &str, field| {
        let seen = linux(name);
        self::table(&seen, table).model.granularity(field).is_some()
    };
    assert!(!offers("x710", "RxFlowDirector", Field::VlanId));
    assert!(!offers("e810", "RxFlowDirector", Field::VlanId));
    assert!(offers("e810", "RxEthernet", Field::VlanId));
    assert!(!offers("ena", "RxFlowSteering", Field::Ip4Proto));
}

/// The packets that plans for a NIC claim nothing about.
#[test]
fn forms_that_nobody_looked_up_are_not_claimed() {
    let claims = |nic: &str, fields: &[(Field, u128)]| {
        let packet = |conj: Conj, (field, value): &(Field, u128)| conj.with(*field, *value);
        let packet = fields.iter().fold(Conj::all(), packet);
        let seen = if nic == "xdp" { silicon(nic) } else { linux(nic) };
        seen.claims().covers(&packet)
    };
    let (udp, tcp6) = ([(Field::Ip4Proto, 17)], [(Field::Ip6Next, 6)]);
    let with = |more: (Field, u128)| [udp[0], more];
    let (whole, first, later) =
        (with((Field::Ip4Frag, 0)), with((Field::Ip4Frag, 0x2000)), with((Field::Ip4Frag, 7)));
    let (routed, twice) = ([(Field::Ip6Next, 43)], [(Field::EthType, 0x8100)]);
    for nic in ["82599", "x710", "e810", "connectx5", "ena", "gvnic", "sfc9020", "xdp"] {
        assert!(claims(nic, &whole), "{nic}");
        let knows_fragments = ["x710", "e810", "xdp"].contains(&nic);
        assert_eq!(claims(nic, &first), knows_fragments, "{nic}");
        assert_eq!(claims(nic, &later), knows_fragments, "{nic}");
        let has_ip6 = !["82599", "sfc9020"].contains(&nic);
        assert!(claims(nic, &tcp6), "{nic}");
        assert_eq!(claims(nic, &routed), !has_ip6 || nic == "xdp", "{nic}");
        assert_eq!(claims(nic, &twice), nic == "xdp", "{nic}");
    }
}

#[test]
fn aws_ena_and_google_gvnic_want_a_location() {
    for name in ["ena", "gvnic"] {
        let nic = linux(name);
        assert_eq!(nic.tables.len(), 1, "{name}");
        assert!(!nic.tables[0].model.actions.drop, "{name}");
        assert_eq!(nic.tables[0].model.order, TableOrder::Location, "{name}");
    }
}

#[test]
fn intel_82576_shows_no_rules() {
    let seen = linux("82576");
    assert_eq!((names(&seen), seen.queues.count()), (vec![], 8));
    assert_eq!(table(&silicon("82576"), "Rx5Tuple").model.capacity.entries, 8);
}

/// Every device that says something of received checksums says it packet by packet, and none of them reach an
/// XDP program; only what holds of every frame removes nodes.
#[test]
fn features_say_what_they_do_for_a_host() {
    for name in nics().filter(|name| *name != "xdp") {
        let vouched = silicon(name).vouched(&[]);
        assert_eq!((vouched.each.len(), vouched.filled.len()), (2, 2), "{name}");
    }
    assert!(silicon("xdp").vouched(&[]).each.is_empty());
    let short = Conj::all().with(Field::FrameLen, 20);
    for (name, drops) in [("82599", true), ("connectx5", true), ("ena", false), ("tap", false)] {
        let always = silicon(name).vouched(&[]).always();
        let left = weever_plan::flow::conjunctions(&always, 8).unwrap();
        assert_eq!(left.iter().all(|part| part.disjoint(&short)), drops, "{name}");
        assert!(silicon(name).sends.is_some(), "{name}");
    }
}
