//! Byte by byte against the contents of the C structures of `<linux/ethtool.h>` for the same values, as
//! a C program printed them on x86-64 (which is little-endian: so are the numbers that are not fields
//! of packets).

use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};

use super::kernel::{keep_transformation, spreading_request};
use super::layout::spec;
use super::*;

fn matches(flow_type: FlowType, fields: &[(Field, u128, u128)]) -> Match {
    let fields = fields.iter().map(|(f, value, mask)| (*f, Key { mask: *mask, value: *value }));
    Match { flow_type, fields: fields.collect() }
}

/// The bytes that are not 0, with their offsets.
fn set_bytes(rule: &RuleSpec) -> Vec<(usize, u8)> {
    rule.bytes.iter().copied().enumerate().filter(|(_, byte)| *byte != 0).collect()
}

#[test]
fn a_rule_lies_as_the_kernel_has_it() {
    let fields = [
        (Field::VlanId, 5, 0xfff),
        (Field::Ip4Src, 0x0a00_0001, 0xffff_ffff),
        (Field::L4Dst, 53, 0xffff),
    ];
    let rule = matches(FlowType::Udp4, &fields).to_rule(Action::Queue(3)).unwrap().at(17);
    // udp4 with FLOW_EXT, ip4src, pdst; their masks; vlan_tci and its mask; ring 3, location 17.
    let values = [(0, 0x02), (3, 0x80), (4, 0x0a), (7, 0x01), (15, 0x35), (67, 0x05)];
    let masks = [(76, 0xff), (77, 0xff), (78, 0xff), (79, 0xff), (86, 0xff), (87, 0xff)];
    let rest = [(138, 0x0f), (139, 0xff), (152, 0x03), (160, 0x11)];
    assert_eq!(set_bytes(&rule), [&values[..], &masks, &rest].concat());
    assert_eq!(rule.bytes.len(), 168);
}

#[test]
fn rules_of_ip_and_of_ethernet_lie_as_the_kernel_has_them() {
    let rule = |flow_type, fields: &[_]| {
        let rule = matches(flow_type, fields).to_rule(Action::Queue(0)).unwrap().at(0);
        set_bytes(&rule)
    };
    let proto = rule(FlowType::Ip4, &[(Field::Ip4Proto, 47, 0xff)]);
    assert_eq!(proto, [(0, 13), (17, 1), (18, 47), (90, 0xff)], "ip_ver is 1 and has no mask");
    let next = rule(FlowType::Ip6, &[(Field::Ip6Next, 58, 0xff)]);
    assert_eq!(next, [(0, 14), (41, 58), (113, 0xff)]);
    let port = rule(FlowType::Tcp6, &[(Field::L4Dst, 0x0150, 0xffff)]);
    assert_eq!(port, [(0, 5), (38, 1), (39, 0x50), (110, 0xff), (111, 0xff)]);
    let ether = rule(FlowType::Ether, &[(Field::EthType, 0x88cc, 0xffff)]);
    assert_eq!(ether, [(0, 18), (16, 0x88), (17, 0xcc), (88, 0xff), (89, 0xff)]);
    let mac = rule(FlowType::Tcp4, &[(Field::EthDst, 0x0200_0000_0009, 0xffff_ffff_ffff)]);
    let masks = (130..136).map(|at| (at, 0xff));
    let expected = [(0, 1), (3, 0x40), (58, 2), (63, 9)].into_iter().chain(masks);
    assert_eq!(mac, expected.collect::<Vec<_>>());
}

#[test]
fn actions_are_cookies() {
    let rule = matches(FlowType::Tcp4, &[]).to_rule(Action::Drop).unwrap().at(0);
    assert_eq!(rule.bytes[spec::COOKIE..spec::COOKIE + 8], [0xff; 8]);
    assert_eq!(rule.action(), Action::Drop);
    let spread = Action::Context { context: 2, queue: 4 };
    let rule = rule.sending(spread);
    assert_eq!((rule.bytes[3], rule.bytes[spec::COOKIE], rule.context), (0x20, 4, 2));
    assert_eq!(rule.action(), spread);
    let rule = rule.sending(Action::Queue(9));
    assert_eq!(set_bytes(&rule), [(0, 1), (spec::COOKIE, 9)]);
}

#[test]
fn a_change_of_spreading_lies_as_the_kernel_has_it() {
    let request = spreading_request(0, Some(&[1, 0x0203]), Some(&[0xaa, 0xbb]));
    let head = [0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(request, [&head[..], &[1, 0, 0, 0, 3, 2, 0, 0, 0xaa, 0xbb]].concat());
    let key_only = spreading_request(0, None, Some(&[1]));
    assert_eq!(key_only[8..16], [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    assert_eq!(spreading_request(7, Some(&[]), None)[4..16], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// A new table leaves symmetric hashing on: `input_xfrm` of a request is what the device had.
#[test]
fn a_change_of_spreading_keeps_the_transformation_of_the_hashs_input() {
    let input_xfrm = 17;
    for present in [0, 1, 2, 0xff] {
        let mut answer = spreading_request(0, None, None);
        answer[input_xfrm] = present;
        let mut request = spreading_request(0, Some(&[1, 2]), None);
        let before = request.clone();
        keep_transformation(&mut request, &answer);
        assert_eq!(request[input_xfrm], present);
        request[input_xfrm] = 0;
        assert_eq!(request, before, "nothing else changes");
    }
}

#[test]
fn what_is_matched_can_be_read_back_and_said_as_a_command() {
    let fields = [
        (Field::Ip4Src, 0x0a00_0000, 0xff00_0000),
        (Field::Ip4Dst, 0x0a00_0101, 0xffff_ffff),
        (Field::L4Dst, 53, 0xffff),
    ];
    let rule = matches(FlowType::Udp4, &fields).to_rule(Action::Queue(3)).unwrap();
    assert_eq!(rule.matches(), Some(matches(FlowType::Udp4, &fields)));
    let line =
        "flow-type udp4 src-ip 10.0.0.0 m 0.255.255.255 dst-ip 10.0.1.1 dst-port 53 action 3";
    assert_eq!(rule.to_options(), line);
    let tagged = [(Field::EthType, 0x88cc, 0xffff), (Field::VlanId, 5, 0xfff)];
    let rule = matches(FlowType::Ether, &tagged).to_rule(Action::Drop).unwrap();
    assert_eq!(rule.to_options(), "flow-type ether proto 0x88cc vlan 5 m 61440 action -1");
    let unknown = RuleSpec::new(10);
    assert_eq!(
        (unknown.matches(), unknown.to_options().as_str()),
        (None, "flow-type #10 action 0")
    );
}

#[test]
fn fields_that_a_flow_type_lacks_are_named() {
    for (flow_type, field) in [
        (FlowType::Udp4, Field::Ip6Src),
        (FlowType::Udp4, Field::Ip4Proto),
        (FlowType::Ip4, Field::L4Dst),
        (FlowType::Ether, Field::Ip4Src),
        (FlowType::Tcp4, Field::TcpFlags),
    ] {
        let rule = matches(flow_type, &[(field, 1, 1)]).to_rule(Action::Queue(0));
        assert_eq!(rule, Err(field), "{flow_type}");
    }
}

#[test]
fn a_rule_survives_a_file() {
    let rule = matches(FlowType::Tcp4, &[(Field::L4Src, 80, 0xffff)]);
    let rule = rule.to_rule(Action::Context { context: 3, queue: 1 }).unwrap().at(5);
    let text = serde_json::to_string(&rule).unwrap();
    assert_eq!(serde_json::from_str::<RuleSpec>(&text).unwrap(), rule);
    for broken in ["{\"spec\":\"00\",\"context\":0}", "{\"spec\":\"zz\",\"context\":0}", "{}", "7"]
    {
        assert!(serde_json::from_str::<RuleSpec>(broken).is_err());
    }
}

#[test]
fn names_that_no_device_can_have_are_refused() {
    for name in ["", "a-name-that-is-too-long", "eth\0"] {
        assert!(matches!(KernelDriver::open(name), Err(EthtoolError::Name { .. })), "{name}");
    }
    let nobody = KernelDriver::open("wv-none0").unwrap().channels().unwrap_err();
    assert!(nobody.is_gone(), "{nobody}");
}
