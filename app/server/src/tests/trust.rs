//! Applications that work in the frames of packets.

use weever_packet::{HugePages, LARGE_FRAME};

use super::*;
use crate::Trusted;

/// A bench whose worker lends its frames, and an application that gets some.
fn trusted() -> (Bench, u32, AppEnd) {
    let mut bench = bench();
    let pool = bench.pool.clone();
    assert!(bench.server.lend_frames(0, &pool, 64, Trusted::Users(vec![7])));
    let (queue, app) = open(&mut bench, 7);
    (bench, queue, app)
}

fn open(bench: &mut Bench, user: u32) -> (u32, AppEnd) {
    let opened = bench.server.open_queue(identity(user), GEOMETRY).unwrap();
    let OpenedQueue { id, mut channels, .. } = opened;
    (id, AppEnd::map(channels.remove(0)).unwrap())
}

fn answer() -> PacketInfo {
    PacketInfo { remote: peer(), ..PacketInfo::default() }
}

#[test]
fn a_request_is_read_and_its_answer_sent_in_the_frame_in_which_it_came() {
    let (mut bench, queue, mut app) = trusted();
    assert!(app.frames().is_trusted());
    let socket = bench.bind(queue, 1053);
    for round in 0..200u32 {
        let packet = bench.datagram(socket, &round.to_ne_bytes());
        let (frame, at) = (packet.index(), packet.data().as_ptr());
        assert_eq!(bench.turn(vec![packet]).len(), 0);
        let received = app.receive().unwrap().unwrap();
        assert_eq!(app.payload(&received), round.to_ne_bytes());
        let (offset, len) = (received.offset, received.len);
        let mine = received.frame.unwrap();
        assert_eq!(mine.index(), frame, "it is the packet's own");
        app.submit(mine, socket, &answer(), (offset, len, 0)).unwrap();
        let _ = app.commit().unwrap();
        let sent = bench.turn(Vec::new());
        assert_eq!((sent[0].index(), sent[0].data().as_ptr()), (frame, at));
        assert_eq!(sent[0].data(), round.to_ne_bytes());
        assert_eq!(sent[0].meta().endpoints.remote_port, 9);
    }
    let counts = bench.counts(socket);
    assert_eq!((counts.delivered, counts.sent, counts.refused), (200, 200, 0));
    assert_eq!(bench.pool.census().lent, [("test".to_owned(), 32)], "as many as at first");
    bench.server.close_queue(queue).unwrap();
    bench.turn(Vec::new());
    drop(app);
    assert_eq!(bench.pool.census().lent, [], "they are the stack's again");
}

#[test]
fn a_program_that_dies_with_frames_in_its_hands_takes_none_along() {
    for held in [0, 1, 16] {
        let (mut bench, queue, mut app) = trusted();
        let socket = bench.bind(queue, 1053);
        let packets = (0..held).map(|_| bench.datagram(socket, b"question")).collect();
        bench.turn(packets);
        let frames: Vec<_> =
            std::iter::from_fn(|| app.receive().unwrap()).map(|got| got.frame.unwrap()).collect();
        assert_eq!(frames.len(), held);
        for frame in frames.into_iter().skip(held / 2) {
            app.submit(frame, socket, &answer(), (300, 4, 0)).unwrap();
        }
        let _ = app.commit().unwrap();
        // It is gone; what it has sent is still sent.
        drop(app);
        bench.server.close_queue(queue).unwrap();
        let sent = bench.turn(Vec::new());
        bench.turn(Vec::new());
        assert_eq!(sent.len(), held - held / 2);
        drop(sent);
        bench.cache = bench.pool.cache();
        drop(bench.queue);
        assert!(bench.pool.census().is_complete(), "{}", bench.pool.census());
    }
}

#[test]
fn an_application_that_does_not_give_frames_loses_its_own_datagrams_only() {
    let (mut bench, queue, app) = trusted();
    let (other, mut theirs) = open(&mut bench, 7);
    let (socket, others) = (bench.bind(queue, 1053), bench.bind(other, 1054));
    let packets = (0..40).map(|_| bench.datagram(socket, b"x")).collect();
    bench.turn(packets);
    let packet = bench.datagram(others, b"y");
    bench.turn(vec![packet]);
    let counts = bench.counts(socket);
    assert_eq!((counts.delivered, counts.no_frame), (16, 24), "half of its frames were lent");
    assert!(theirs.receive().unwrap().is_some());
    drop(app);
}

#[test]
fn others_and_those_who_come_late_get_frames_of_their_own() {
    let (mut bench, _, _first) = trusted();
    let (_, stranger) = open(&mut bench, 8);
    assert!(!stranger.frames().is_trusted(), "not of a trusted user");
    let (_, second) = open(&mut bench, 7);
    assert!(second.frames().is_trusted());
    let (_, third) = open(&mut bench, 7);
    assert!(!third.frames().is_trusted(), "64 frames are lent, and both of the others have 32");
    let long = Geometry { frame_size: 4096, ..GEOMETRY };
    let opened = bench.server.open_queue(identity(7), long).unwrap();
    assert!(opened.trusted.is_empty(), "packets have shorter frames");
    let statuses: Vec<_> = bench.server.queues().map(|queue| queue.trusted).collect();
    assert_eq!(statuses, [vec![0], vec![], vec![0], vec![], vec![]]);
}

#[test]
fn a_packet_in_another_pools_frame_and_a_long_answer_are_copied() {
    let (mut bench, queue, mut app) = trusted();
    let socket = bench.bind(queue, 1053);
    let huge_pages = HugePages::Never;
    let other = PoolConfig { frames: 64, huge_pages, ..PoolConfig::default() };
    let other = Pool::new(other).unwrap();
    let mut foreign = other.alloc().unwrap();
    assert!(bench.datagram(socket, b"from elsewhere").copy_to(&mut foreign));
    bench.turn(vec![foreign]);
    assert!(other.census().is_complete(), "its frame went home");
    let received = app.receive().unwrap().unwrap();
    assert_eq!(app.payload(&received), b"from elsewhere");
    app.release(received.frame.unwrap());
    let room = app.frames().room();
    for (part, more) in [([1u8; 1500], 2), ([2; 1500], 1), ([3; 1500], 0)] {
        let mut frame = app.alloc().unwrap().unwrap();
        app.payload_mut(&mut frame)[..1500].copy_from_slice(&part);
        app.submit(frame, socket, &answer(), (room, 1500, more)).unwrap();
    }
    let _ = app.commit().unwrap();
    let sent = bench.turn(Vec::new());
    assert_eq!((sent[0].len(), sent[0].frame_size()), (4500, LARGE_FRAME as usize));
    assert_eq!((sent[0].data()[0], sent[0].data()[4499]), (1, 3));
    assert_eq!(bench.pool.census().lent, [("test".to_owned(), 32)]);
}

#[test]
fn a_source_that_is_not_the_sockets_is_refused_before_its_frame_is_taken() {
    let (mut bench, queue, mut app) = trusted();
    let local_addr = Some(IpAddr::from([192, 0, 2, 1]));
    let request = SocketRequest { local_addr, local_port: Some(1053), ..SocketRequest::default() };
    let socket = bench.server.open_socket(queue, &request).unwrap().id;
    bench.turn(Vec::new());
    let lie = PacketInfo { local: SocketAddr::from(([192, 0, 2, 99], 80)), ..answer() };
    for (by, info) in [(socket, lie), (socket + 1, answer()), (socket, PacketInfo::default())] {
        let frame = app.alloc().unwrap().unwrap();
        let room = app.frames().room();
        app.submit(frame, by, &info, (room, 4, 0)).unwrap();
    }
    let _ = app.commit().unwrap();
    let sent = bench.turn(Vec::new());
    assert_eq!(sent.len(), 1, "neither another's socket nor nobody's address");
    let ends = sent[0].meta().endpoints;
    assert_eq!((ends.local, ends.local_port), (Endpoints::mapped(0xc000_0201), 1053));
    assert_eq!(bench.counts(socket).refused, 1);
    app.reap().unwrap();
    assert_eq!(app.held(), (16, 16), "all have come back");
}
