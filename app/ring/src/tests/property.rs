//! Random use of both ends: frames are conserved, payloads arrive in order, and reading for one socket passes nothing over.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Deliver(usize),
    StackPublish,
    Receive { keep: bool },
    Send(usize),
    Commit,
    Transmit,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..700usize).prop_map(Op::Deliver),
        Just(Op::StackPublish),
        any::<bool>().prop_map(|keep| Op::Receive { keep }),
        (0..190usize).prop_map(Op::Send),
        Just(Op::Commit),
        Just(Op::Transmit),
    ]
}

proptest! {
    #[test]
    fn frames_are_conserved_and_order_is_kept(
        frames in 2..40u32,
        ops in proptest::collection::vec(op(), 1..300),
    ) {
        let (mut stack, mut app) = pair(frames);
        let mut kept: Vec<Frame> = Vec::new();
        let mut to_app: VecDeque<Vec<u8>> = VecDeque::new();
        let mut to_stack: VecDeque<Vec<u8>> = VecDeque::new();
        let mut partial: Vec<u8> = Vec::new();
        let mut serial = 0u8;
        for op in ops {
            serial = serial.wrapping_add(1);
            match op {
                Op::Deliver(len) => {
                    let payload = vec![serial; len];
                    if stack.deliver(1, &info(1), &payload).unwrap() == Delivery::Delivered {
                        to_app.push_back(payload);
                    }
                }
                Op::StackPublish => drop(stack.publish()),
                Op::Receive { keep } => {
                    if let Some(received) = app.receive().unwrap() {
                        partial.extend_from_slice(app.payload(&received));
                        if received.more == 0 {
                            prop_assert_eq!(Some(std::mem::take(&mut partial)), to_app.pop_front());
                        }
                        let frame = received.frame.unwrap();
                        if keep { kept.push(frame) } else { app.release(frame) }
                    }
                }
                Op::Send(len) => {
                    let frame = match kept.pop() {
                        Some(frame) => Some(frame),
                        None => app.alloc().unwrap(),
                    };
                    let Some(mut frame) = frame else { continue };
                    app.payload_mut(&mut frame)[..len].fill(serial);
                    match app.submit(frame, 1, &info(1), (INFO_SIZE, len as u16, 0)) {
                        Ok(()) => to_stack.push_back(vec![serial; len]),
                        Err(SubmitError::Full(frame)) => app.release(frame),
                        Err(error) => panic!("{error}"),
                    }
                }
                Op::Commit => drop(app.commit().unwrap()),
                Op::Transmit => {
                    if let Some(transmit) = stack.next_transmit().unwrap() {
                        let mut out = vec![0; transmit.len];
                        stack.copy_payload(&mut out);
                        prop_assert_eq!(Some(out), to_stack.pop_front());
                        stack.complete().unwrap();
                    }
                }
            }
        }
        prop_assert_eq!(stack.misuse(), Misuse::default());
        // Everything comes home once both sides have done their part.
        for _ in 0..3 {
            let _ = stack.publish();
            while let Some(received) = app.receive().unwrap() {
                kept.extend(received.frame);
            }
            for frame in kept.drain(..) {
                app.release(frame);
            }
            let _ = app.commit().unwrap();
            while stack.next_transmit().unwrap().is_some() {
                stack.complete().unwrap();
            }
        }
        let _ = stack.publish();
        let _ = app.commit().unwrap();
        let (spare, lent) = app.held();
        prop_assert_eq!(spare + lent, frames as usize);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Deliver(SocketId),
    Fail(SocketId),
    Publish,
    Receive,
    ReceiveFor(SocketId),
    LookForError,
}

fn step() -> impl Strategy<Value = Step> {
    let socket = 1..=2u32;
    prop_oneof![
        4 => socket.clone().prop_map(Step::Deliver),
        1 => socket.clone().prop_map(Step::Fail),
        3 => Just(Step::Publish),
        2 => Just(Step::Receive),
        4 => socket.prop_map(Step::ReceiveFor),
        4 => Just(Step::LookForError),
    ]
}

proptest! {
    #[test]
    fn a_socket_that_is_read_by_itself_gets_what_is_next_and_errors_are_seen_ahead(
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let (mut stack, mut app) = pair(40);
        // What was delivered, how much of it was published, and how much of that was there at the last look.
        let mut delivered: VecDeque<(SocketId, Kind)> = VecDeque::new();
        let (mut published, mut known) = (0, 0);
        for step in steps {
            let is_look = matches!(step, Step::Receive | Step::ReceiveFor(_));
            if is_look && known == 0 {
                known = published;
            }
            let next = delivered.front().copied().filter(|_| known > 0);
            let received = match step {
                Step::Deliver(socket) => {
                    if stack.deliver(socket, &info(1), b"octets").unwrap() == Delivery::Delivered {
                        delivered.push_back((socket, Kind::Data));
                    }
                    continue;
                }
                Step::Fail(socket) => {
                    let told = stack.notify(socket, Kind::Error, (111, 0), None).unwrap();
                    if told == Delivery::Delivered {
                        delivered.push_back((socket, Kind::Error));
                    }
                    continue;
                }
                Step::Publish => {
                    let _ = stack.publish();
                    published = delivered.len();
                    continue;
                }
                Step::LookForError => {
                    let mut there = delivered.iter().take(published);
                    let holds = there.any(|(_, kind)| *kind == Kind::Error);
                    prop_assert_eq!(app.holds_error().unwrap(), holds);
                    continue;
                }
                Step::Receive => {
                    let received = app.receive().unwrap();
                    prop_assert_eq!(received.as_ref().map(|r| (r.socket, r.kind)), next);
                    received
                }
                Step::ReceiveFor(socket) => {
                    let received = app.receive_for(socket).unwrap();
                    let wanted = next.filter(|next| *next == (socket, Kind::Data));
                    prop_assert_eq!(received.as_ref().map(|r| (r.socket, r.kind)), wanted);
                    received
                }
            };
            if let Some(received) = received {
                delivered.pop_front();
                (published, known) = (published - 1, known - 1);
                if let Some(frame) = received.frame {
                    app.release(frame);
                }
                let _ = app.commit().unwrap();
            }
        }
    }
}
