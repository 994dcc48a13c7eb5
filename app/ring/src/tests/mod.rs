//! Both ends over one channel: payloads, holders of frames, and hostile applications.

mod elsewhere;
mod hostile;
mod property;
mod streams;

use std::net::{IpAddr, SocketAddr};

use super::*;

/// A small channel with both its ends.
pub(crate) fn pair(frames: u32) -> (StackEnd, AppEnd) {
    let geometry = Geometry { ring_len: 64, frames, frame_size: 256 };
    let stack = StackEnd::create(geometry).unwrap();
    let app = AppEnd::map(stack.fd().try_clone_to_owned().unwrap()).unwrap();
    (stack, app)
}

fn info(port: u16) -> PacketInfo {
    PacketInfo {
        remote: SocketAddr::from(([192, 0, 2, 1], port)),
        local: SocketAddr::from(([192, 0, 2, 2], 53)),
        interface: 3,
        hops: 64,
        traffic_class: 2,
        flags: PacketFlags::GROUP,
        fragment: Fragment::Probe,
        flow_label: 0xabcde,
        timestamp: 12,
    }
}

#[test]
fn a_datagram_arrives_with_its_info_and_goes_back_in_the_same_frame() {
    let (mut stack, mut app) = pair(8);
    assert_eq!(stack.deliver(7, &info(9), b"hello").unwrap(), Delivery::Delivered);
    assert!(app.receive().unwrap().is_none(), "nothing is published yet");
    assert!(!stack.publish(), "nobody sleeps");

    let received = app.receive().unwrap().unwrap();
    assert_eq!((received.socket, received.kind, received.more), (7, Kind::Data, 0));
    assert_eq!(app.payload(&received), b"hello");
    let frame = received.frame.unwrap();
    let got = app.info(&frame);
    assert_eq!(got, info(9));

    let answer = PacketInfo { remote: got.remote, ..PacketInfo::default() };
    app.submit(frame, 7, &answer, (received.offset, received.len, 0)).unwrap();
    assert!(!app.commit().unwrap());
    let transmit = stack.next_transmit().unwrap().unwrap();
    assert_eq!((transmit.socket, transmit.info.into(), transmit.len), (7, answer, 5));
    let mut out = [0; 16];
    assert_eq!(stack.copy_payload(&mut out), 5);
    assert_eq!(&out[..5], b"hello");
    stack.complete().unwrap();
    assert!(!stack.publish());
    assert_eq!(stack.next_transmit().unwrap(), None);
    assert_eq!(stack.misuse(), Misuse::default());
}

#[test]
fn frames_that_came_back_last_are_filled_first() {
    let (mut stack, mut app) = pair(128);
    let mut places = std::collections::HashSet::new();
    for _ in 0..1000 {
        for _ in 0..3 {
            assert_eq!(stack.deliver(7, &info(9), b"hello").unwrap(), Delivery::Delivered);
        }
        let _ = stack.publish();
        while let Some(received) = app.receive().unwrap() {
            places.insert(app.payload(&received).as_ptr().addr());
            app.release(received.frame.unwrap());
        }
        let _ = app.commit().unwrap();
    }
    assert_eq!(places.len(), 3, "as many as are in use at once, of the 64 that are lent");
}

#[test]
fn a_long_datagram_takes_several_frames_both_ways_or_none() {
    let (mut stack, mut app) = pair(8);
    let payload: Vec<u8> = (0..500).map(|i| i as u8).collect();
    assert_eq!(stack.deliver(1, &info(1), &payload).unwrap(), Delivery::Delivered);
    assert_eq!(stack.deliver(1, &info(1), &payload).unwrap(), Delivery::NoFrame, "one frame left");
    assert_eq!(stack.deliver(1, &info(2), b"x").unwrap(), Delivery::Delivered);
    let _ = stack.publish();
    let mut got = Vec::new();
    let mut frames = Vec::new();
    loop {
        let received = app.receive().unwrap().unwrap();
        got.extend_from_slice(app.payload(&received));
        let more = received.more;
        frames.push((received.len, more, received.frame.unwrap()));
        if more == 0 {
            break;
        }
    }
    assert_eq!(got, payload);
    assert_eq!(frames.len(), 3);
    for (len, more, frame) in frames {
        app.submit(frame, 1, &info(1), (INFO_SIZE, len, more)).unwrap();
    }
    let _ = app.commit().unwrap();
    let transmit = stack.next_transmit().unwrap().unwrap();
    let mut out = vec![0; transmit.len];
    assert_eq!(stack.copy_payload(&mut out), 500);
    assert_eq!(out, payload);
    let mut cut = [0; 300];
    assert_eq!(stack.copy_payload(&mut cut), 300, "bytes that do not fit are left out");
    stack.complete().unwrap();
}

#[test]
fn what_an_application_holds_leaves_it_frames_to_send_from() {
    let (mut stack, mut app) = pair(16);
    let mut held = Vec::new();
    while stack.deliver(1, &info(1), b"x").unwrap() == Delivery::Delivered {
        let _ = stack.publish();
        held.extend(app.receive().unwrap().unwrap().frame);
        let _ = app.commit().unwrap();
    }
    assert_eq!((held.len(), app.held()), (14, (2, 0)), "an eighth is never lent");
    let frame = app.alloc().unwrap().unwrap();
    app.submit(frame, 1, &info(1), (INFO_SIZE, 1, 0)).unwrap();
    held.into_iter().for_each(|frame| app.release(frame));
    let _ = app.commit().unwrap();
    assert_eq!(app.held(), (7, 8), "half of all is lent again");
}

#[test]
fn an_application_that_never_reads_costs_its_own_datagrams_only() {
    let (mut stack, mut app) = pair(1024);
    let mut full = 0;
    for _ in 0..200 {
        match stack.deliver(1, &info(1), b"x").unwrap() {
            Delivery::RingFull => full += 1,
            Delivery::NoFrame => panic!("half of the frames are lent"),
            Delivery::Delivered => {}
        }
        let _ = stack.publish();
    }
    assert_eq!(full, 200 - 64, "the ring holds 64");
    assert_eq!(stack.notify(1, Kind::Error, (111, 0), None).unwrap(), Delivery::RingFull);
    while let Some(received) = app.receive().unwrap() {
        app.release(received.frame.unwrap());
    }
    let _ = app.commit().unwrap();
    assert_eq!(stack.notify(1, Kind::Error, (111, 0), None).unwrap(), Delivery::Delivered);
    let _ = stack.publish();
    let event = app.receive().unwrap().unwrap();
    assert_eq!((event.kind, event.offset, event.frame), (Kind::Error, 111, None));
    let about = |message| {
        let sender = PackedAddr::from(IpAddr::from([192, 0, 2, 9]));
        Some(About { info: (&info(7)).into(), sender, message })
    };
    // As much of a longer message as the frame has room for behind the sender and the length.
    let long = [3; 700];
    stack.notify(1, Kind::Error, (90, 1400), about(&long)).unwrap();
    let _ = stack.publish();
    let event = app.receive().unwrap().unwrap();
    assert_eq!((event.kind, event.offset, event.len), (Kind::Error, 90, 1400));
    let frame = event.frame.unwrap();
    assert_eq!(app.info(&frame), info(7));
    let cause = app.frames().cause(&frame);
    assert_eq!((cause.sender, &*cause.message), (Some([192, 0, 2, 9].into()), &long[..192 - 18]));
    app.release(frame);
}

#[test]
fn who_sleeps_is_woken_once_and_only_if_there_is_something() {
    let (mut stack, mut app) = pair(8);
    assert!(app.arm().unwrap());
    assert!(!stack.publish(), "nothing was delivered");
    stack.deliver(1, &info(1), b"x").unwrap();
    assert!(stack.publish());
    stack.deliver(1, &info(1), b"y").unwrap();
    assert!(!stack.publish(), "it was woken already");
    assert!(!app.arm().unwrap(), "there is something to receive");

    assert!(stack.park().unwrap());
    let frame = app.receive().unwrap().unwrap().frame.unwrap();
    app.submit(frame, 1, &info(1), (INFO_SIZE, 1, 0)).unwrap();
    assert!(app.commit().unwrap(), "the worker has parked the channel");
    assert!(!stack.park().unwrap(), "there is something to send");
    assert!(stack.next_transmit().unwrap().is_some());
    stack.complete().unwrap();
}

#[test]
fn a_full_transmit_ring_gives_the_frame_back() {
    let (_stack, mut app) = pair(1024);
    for _ in 0..64 {
        let frame = app.alloc().unwrap().unwrap();
        app.submit(frame, 1, &info(1), (INFO_SIZE, 4, 0)).unwrap();
    }
    let frame = app.alloc().unwrap().unwrap();
    let Err(SubmitError::Full(frame)) = app.submit(frame, 1, &info(1), (INFO_SIZE, 4, 0)) else {
        panic!("the ring holds 64");
    };
    let Err(SubmitError::Range { frame, .. }) = app.submit(frame, 1, &info(1), (0, 4, 0)) else {
        panic!("the payload would lie over the packet info");
    };
    app.release(frame);
}
