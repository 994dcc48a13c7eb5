use super::*;
use crate::ipv6::template;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const US: &str = "2001:db8::1";
const PEER: &str = "2001:db8::2";

fn packet(src: &str, dst: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let repr = template(src.parse().unwrap(), dst.parse().unwrap(), next, payload.len() as u16);
    let mut packet = [0; 40].to_vec();
    repr.emit(&mut packet).unwrap();
    packet.extend_from_slice(payload);
    packet
}

#[test]
fn every_silence() {
    let ask = |packet: &[u8], group| may_report(Cause::PortUnreachable, packet, group).err();
    let fine = packet(PEER, US, 17, &[0; 8]);
    assert_eq!(ask(&fine, false), None);
    assert_eq!(ask(&fine, true), Some(Silence::LinkGroup));
    assert_eq!(ask(&fine[..39], false), Some(Silence::Truncated));
    assert_eq!(ask(&packet(PEER, "ff02::1", 17, &[0; 8]), false), Some(Silence::ToGroup));
    for src in ["::", "::1", "ff02::9"] {
        assert_eq!(ask(&packet(src, US, 17, &[0; 8]), false), Some(Silence::SourceNotANode));
    }
    for kind in [1, 2, 3, 4, 100, kind::REDIRECT] {
        assert_eq!(ask(&packet(PEER, US, 58, &[kind]), false), Some(Silence::AboutAnError));
        let hidden = [58, 0, 1, 4, 0, 0, 0, 0, kind];
        assert_eq!(ask(&packet(PEER, US, 60, &hidden), false), Some(Silence::AboutAnError));
    }
    assert_eq!(ask(&packet(PEER, US, 58, &[]), false), Some(Silence::AboutAnError));
    assert_eq!(ask(&packet(PEER, US, 58, &[kind::ECHO_REQUEST]), false), None);
    // A later fragment names only the protocol of its datagram.
    for (of, silence) in
        [(17, None), (58, Some(Silence::Truncated)), (60, Some(Silence::Truncated))]
    {
        let later = packet(PEER, US, 44, &[of, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(ask(&later, false), silence, "of {of}");
    }
}

#[test]
fn two_causes_are_reported_to_senders_to_groups() {
    let to_group = packet(PEER, "ff0e::5", 17, &[0; 8]);
    for (cause, told) in [
        (Cause::PacketTooBig { mtu: 1280 }, true),
        (Cause::Option { pointer: 42, even_to_group: true }, true),
        (Cause::Option { pointer: 42, even_to_group: false }, false),
        (Cause::NextHeader { pointer: 6 }, false),
    ] {
        assert_eq!(may_report(cause, &to_group, true).is_ok(), told, "{cause:?}");
    }
}

#[test]
fn faults_of_chains() {
    let of = Cause::of_chain;
    assert_eq!(of(ChainFault::Truncated), None);
    assert_eq!(of(ChainFault::TooMany), None);
    assert_eq!(of(ChainFault::Option { pointer: 42, report: Report::Never }), None);
    let silent = Cause::Option { pointer: 42, even_to_group: false };
    assert_eq!(of(ChainFault::Option { pointer: 42, report: Report::UnlessGroup }), Some(silent));
    assert_eq!(of(ChainFault::Routing { pointer: 42 }), Some(Cause::HeaderField { pointer: 42 }));
    let first = ChainFault::HopByHopNotFirst { pointer: 40 };
    assert_eq!(of(first), Some(Cause::NextHeader { pointer: 40 }));
}

#[test]
fn each_type_has_its_budget() {
    let kinds = [kind::UNREACHABLE, kind::PACKET_TOO_BIG, kind::PARAMETER_PROBLEM, kind::REDIRECT];
    assert_eq!(kinds.map(budget), [Some(0), Some(1), Some(3), Some(4)]);
    assert_eq!([budget(kind::ECHO_REPLY), budget(0)], [None, None]);
}

proptest! {
    #[test]
    fn an_error_quotes_what_fits_and_is_never_answered(
        payload in vec(any::<u8>(), 0..1600), padding in 0usize..20,
    ) {
        let mut about = packet(PEER, US, 17, &payload);
        about.resize(about.len() + padding, 0);
        let len = quote_len(&about);
        prop_assert_eq!(len, (40 + payload.len()).min(1232));
        for cause in [Cause::PortUnreachable, Cause::PacketTooBig { mtu: 1400 }, Cause::HopLimitExceeded] {
            let repr = cause.repr(&about[..len]);
            let mut message = std::vec![0; repr.buffer_len()];
            repr.emit(&mut message, &[0; 32]).unwrap();
            prop_assert!(40 + message.len() <= MAX_ERROR_LEN);
            let error = packet(US, PEER, next_header::ICMPV6, &message);
            prop_assert!(may_report(Cause::NoRoute, &error, false).is_err());
        }
    }
}
