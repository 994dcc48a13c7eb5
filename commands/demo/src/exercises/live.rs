//! Another graph, again and again, while datagrams go through it.

use std::sync::atomic::{AtomicBool, Ordering};

use weever_service_api::{ApplyRequest, ClientError, GraphFormat, GraphRequest};

use super::{PATIENCE, WINDOW};
use crate::payloads;
use crate::peer::{Over, Peer, PeerError};
use crate::stage::Control;
use crate::steps::{Deadline, Finding, Steps};

/// How often the graph is changed.
const CHANGES: usize = 100;
/// Blocks that come with one change and go with the next.
const BLOCKS: usize = 20;
/// More datagrams than this are a change that does not end.
const MOST: u64 = 5_000_000;

/// Applies graphs that differ by some blocks in front of the echo service, in turns, while numbered
/// datagrams are echoed: every one has to come back, in its place.
pub(crate) fn changes_under_load(peer: &mut dyn Peer, control: &mut Control, steps: &mut Steps) {
    steps.run("the graph changes while datagrams are echoed", |deadline| {
        let plain =
            control.ask(|client| client.call(&GraphRequest::from(GraphFormat::Unicorn)))?.text;
        let longer = with_blocks(&plain, BLOCKS);
        let over = AtomicBool::new(false);
        let (applied, flow) = std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let applied = change(control, [&longer, &plain], deadline);
                over.store(true, Ordering::Release);
                applied
            });
            let flow = flow(peer, &over);
            (changes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), flow)
        });
        let (changed, flow) = (applied?, flow?);
        let expected = format!("{CHANGES} changes of {BLOCKS} blocks or more, 0 lost, 0 reordered");
        let found = format!(
            "{} changes of {} blocks or more, {} lost, {} reordered",
            changed.len(),
            changed.iter().min().unwrap_or(&0).min(&BLOCKS),
            flow.sent - flow.received,
            flow.reordered
        );
        let ok = expected == found && flow.sent > 0;
        Ok(Finding::judged(ok, expected, format!("{found}, {} datagrams meanwhile", flow.sent)))
    });
}

/// How many steps each change took.
fn change(
    control: &mut Control,
    graphs: [&str; 2],
    deadline: Deadline,
) -> Result<Vec<usize>, ClientError> {
    let mut apply = |n: usize| {
        control.ask(|client| client.call(&ApplyRequest::new("demo.unicorn", graphs[n % 2])))
    };
    let changes = (0..CHANGES).take_while(|_| !deadline.is_over());
    changes.map(|n| apply(n).map(|changed| changed.steps)).collect()
}

/// The graph with counters between the socket table and the echo service.
fn with_blocks(plain: &str, blocks: usize) -> String {
    let next = |n| if n + 1 == blocks { "Echo".to_owned() } else { format!("Demo{}", n + 1) };
    let node = |n| format!("node Demo{n} {{ implementation Counter port out[{}] }}\n", next(n));
    let nodes: String = (0..blocks).map(node).collect();
    let entered = plain.replacen("port echo[Echo]", "port echo[Demo0]", 1);
    entered.replacen("node Echo {", &format!("{nodes}node Echo {{"), 1)
}

/// The outcome of a flow of numbered datagrams.
#[derive(Default)]
struct Flow {
    sent: u64,
    received: u64,
    reordered: u64,
}

/// Keeps a window of datagrams in flight until it is over, and then waits for the last ones.
fn flow(peer: &mut dyn Peer, over: &AtomicBool) -> Result<Flow, PeerError> {
    let (mut flow, mut back) = (Flow::default(), [0u8; 2048]);
    loop {
        let ends = over.load(Ordering::Acquire) || flow.sent >= MOST;
        while !ends && flow.sent - flow.received < WINDOW {
            peer.send(Over::V4, &payloads::datagram(flow.sent))?;
            flow.sent += 1;
        }
        if flow.received == flow.sent {
            return Ok(flow);
        }
        // An answer that is not here by now will not come.
        let Some(len) = peer.receive(Over::V4, &mut back, PATIENCE)? else { return Ok(flow) };
        flow.reordered += u64::from(payloads::verify(&back[..len]) != Some(flow.received));
        flow.received += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_in_a_row_before_the_echo_service() {
        let plain = "port echo[Echo]\nnode Echo {\n}";
        let longer = with_blocks(plain, 2);
        assert!(longer.contains("port echo[Demo0]"), "{longer}");
        assert!(
            longer.contains("node Demo0 { implementation Counter port out[Demo1] }"),
            "{longer}"
        );
        assert!(longer.contains("port out[Echo] }\nnode Echo {"), "{longer}");
    }
}
