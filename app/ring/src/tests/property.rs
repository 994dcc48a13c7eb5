//! Random use of both ends: frames are conserved, and payloads arrive in order.

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
