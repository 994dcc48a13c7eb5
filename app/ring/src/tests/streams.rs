//! Streams on a channel: octets stay readable until they are acknowledged, and arrive in order.

use super::*;

/// Sends octets of a stream in one frame.
fn send(app: &mut AppEnd, stream: SocketId, octets: &[u8]) {
    let mut frame = app.alloc().unwrap().unwrap();
    app.payload_mut(&mut frame)[..octets.len()].copy_from_slice(octets);
    app.submit_stream(frame, stream, (INFO_SIZE, octets.len() as u16)).unwrap();
}

#[test]
fn sent_octets_are_read_again_until_their_frames_are_given_back() {
    let (mut stack, mut app) = pair(8);
    send(&mut app, 5, b"hello ");
    send(&mut app, 5, b"world");
    assert!(app.request(Kind::Finished, 5, 0).unwrap());
    let _ = app.commit().unwrap();

    let mut kept = Vec::new();
    for len in [6, 5] {
        let transmit = stack.next_transmit().unwrap().unwrap();
        assert_eq!((transmit.kind, transmit.socket, transmit.len), (Kind::Stream, 5, len));
        kept.push(stack.keep().unwrap());
    }
    let finished = stack.next_transmit().unwrap().unwrap();
    assert_eq!((finished.kind, finished.socket), (Kind::Finished, 5));
    stack.complete().unwrap();
    let _ = stack.publish();
    let _ = app.commit().unwrap();
    assert_eq!(app.next_returned(), None, "nothing is acknowledged yet");

    let frames = stack.sent_frames();
    let mut out = [0; 8];
    assert_eq!(frames.read(&kept[1], 0, &mut out), 5);
    assert_eq!(frames.read(&kept[0], 4, &mut out), 2, "a retransmission from its middle");
    assert_eq!(&out[..2], b"o ");
    let held = stack.held().1;
    kept.into_iter().for_each(|sent| stack.give_back(sent).unwrap());
    assert_eq!(stack.held().1, held - 2);
    let _ = stack.publish();
    let _ = app.commit().unwrap();
    assert_eq!(
        [app.next_returned(), app.next_returned(), app.next_returned()],
        [Some((5, 6)), Some((5, 5)), None]
    );
    assert_eq!(stack.misuse(), Misuse::default());
}

#[test]
fn octets_are_delivered_as_far_as_there_are_frames() {
    let (mut stack, mut app) = pair(8);
    let octets: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
    let ends = info(9);
    assert!(stack.connected(STREAMS | 1, 3, &ends).unwrap());
    let mut filled = Default::default();
    let first = stack.deliver_stream(STREAMS | 1, &octets, &mut filled).unwrap();
    assert_eq!(first, 3 * 192, "four frames are lent, one has the connection");
    let _ = stack.publish();

    let accepted = app.receive().unwrap().unwrap();
    assert_eq!((accepted.kind, accepted.socket), (Kind::Connected, STREAMS | 1));
    assert_eq!(app.payload(&accepted), 3u32.to_ne_bytes());
    let frame = accepted.frame.unwrap();
    assert_eq!(app.info(&frame), ends);
    app.release(frame);
    let mut got = Vec::new();
    loop {
        while let Some(received) = app.receive().unwrap() {
            assert_eq!((received.kind, received.socket), (Kind::Stream, STREAMS | 1));
            got.extend_from_slice(app.payload(&received));
            app.release(received.frame.unwrap());
        }
        let _ = app.commit().unwrap();
        if got.len() == octets.len() {
            break;
        }
        let more = stack.deliver_stream(STREAMS | 1, &octets[got.len()..], &mut filled).unwrap();
        assert!(more > 0, "frames came back");
        let _ = stack.publish();
    }
    assert_eq!(got, octets);
}

#[test]
fn frames_wait_for_room_in_the_completion_ring() {
    let (mut stack, mut app) = pair(200);
    let mut kept = Vec::new();
    for _ in 0..2 {
        for _ in 0..50 {
            send(&mut app, 5, b"x");
        }
        let _ = app.commit().unwrap();
        while stack.next_transmit().unwrap().is_some() {
            kept.extend(stack.keep());
        }
        let _ = stack.publish();
    }
    assert_eq!(kept.len(), 100);
    kept.into_iter().for_each(|sent| stack.give_back(sent).unwrap());
    assert!(stack.owes(), "the ring has 64 entries");
    let mut back = 0;
    while stack.owes() || back < 100 {
        let _ = stack.publish();
        let _ = app.commit().unwrap();
        back += std::iter::from_fn(|| app.next_returned()).count();
        assert_eq!(stack.next_transmit().unwrap(), None);
    }
    assert_eq!(back, 100);
}
