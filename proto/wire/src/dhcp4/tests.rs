use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

fn repr<'a>(kind: MessageType, options: &'a [DhcpOption<'a>]) -> DhcpRepr<'a> {
    let (client_ip, your_ip) = (Ipv4Addr::new(10, 0, 0, 3), Ipv4Addr::new(10, 0, 0, 4));
    DhcpRepr {
        kind,
        xid: 0x1234_5678,
        secs: 9,
        broadcast: true,
        client_ip,
        your_ip,
        mac: MAC,
        options,
    }
}

fn emitted(repr: DhcpRepr<'_>) -> Vec<u8> {
    let mut buf = std::vec![0xee; repr.buffer_len()];
    repr.emit(&mut buf).unwrap();
    buf
}

#[test]
fn a_message_round_trips() {
    let options = [
        DhcpOption { code: option::SERVER_ID, data: &[10, 0, 0, 1] },
        DhcpOption { code: option::PARAMETER_REQUEST, data: &[1, 3, 6] },
    ];
    let buf = emitted(repr(MessageType::Request, &options));
    assert_eq!(buf.len(), MIN_LEN);
    let view = DhcpView::new(&buf).unwrap();
    let header = view.header();
    assert!(!header.is_reply() && header.wants_broadcast());
    assert_eq!((header.xid(), header.secs(), header.mac()), (0x1234_5678, 9, MAC));
    assert_eq!(
        (header.client_ip(), header.your_ip()),
        ([10, 0, 0, 3].into(), [10, 0, 0, 4].into())
    );
    assert_eq!(view.message_type(), Some(MessageType::Request));
    assert_eq!(view.options().skip(1).collect::<Vec<_>>(), options);
    assert!(DhcpView::new(&emitted(repr(MessageType::Offer, &[]))).unwrap().header().is_reply());
}

#[test]
fn options_continue_in_other_fields_and_parts_are_joined() {
    let long = [7; 255];
    let options = [
        DhcpOption { code: option::OVERLOAD, data: &[3] },
        DhcpOption { code: option::CLASSLESS_ROUTES, data: &long },
    ];
    let mut buf = emitted(repr(MessageType::Ack, &options));
    buf[FILE..FILE + 6].copy_from_slice(&[0, option::CLASSLESS_ROUTES, 2, 8, 9, option::END]);
    buf[SNAME..SNAME + 7].copy_from_slice(&[option::MTU, 2, 5, 220, option::OVERLOAD, 1, 3]);
    let view = DhcpView::new(&buf).unwrap();
    let codes: Vec<u8> = view.options().map(|o| o.code).collect();
    assert_eq!(codes, [53, 52, 121, 121, 26, 52], "overload counts once");
    let routes = collect(view.options(), option::CLASSLESS_ROUTES).unwrap();
    assert_eq!((routes.bytes().len(), &routes.bytes()[254..]), (257, &[7, 8, 9][..]));
    assert!(collect(view.options(), option::DNS).is_none());
}

#[test]
fn what_is_no_dhcp_message() {
    let buf = emitted(repr(MessageType::Ack, &[]));
    assert!(matches!(DhcpView::new(&buf[..239]), Err(WireError::Truncated { .. })));
    for at in [1, 2, 236, 239] {
        let mut bad = buf.clone();
        bad[at] ^= 1;
        assert!(matches!(DhcpView::new(&bad), Err(WireError::BadField { .. })));
    }
    let mut untyped = buf.clone();
    untyped[HEADER_LEN + 2] = 99;
    assert_eq!(DhcpView::new(&untyped).unwrap().message_type(), None);
    let repr = repr(MessageType::Ack, &[]);
    assert!(matches!(repr.emit(&mut [0; 299]), Err(WireError::NoRoom { .. })));
}

proptest! {
    #[test]
    fn any_options_are_read_within_the_message(bytes in vec(any::<u8>(), 0..300), field in vec(any::<u8>(), 192)) {
        let mut buf = emitted(repr(MessageType::Ack, &[]));
        buf.truncate(HEADER_LEN);
        buf[SNAME..COOKIE].copy_from_slice(&field);
        buf.extend(&bytes);
        let view = DhcpView::new(&buf).unwrap();
        let total: usize = view.options().map(|o| o.data.len() + 2).sum();
        prop_assert!(total <= buf.len());
        for code in 0..=255 {
            let _ = collect(view.options(), code);
        }
    }
}
