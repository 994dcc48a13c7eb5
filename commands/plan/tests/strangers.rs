//! An exclusive queue gets no packets of others, on any NIC, whatever masks its rules have: checked
//! on the packets that the finished plan lets arrive, not on the search's own account of them.

use weever_plan::embed::arrivals;
use weever_plan::flow::Conj;
use weever_plan::nic::Nic;
use weever_plan::search::{Options, Search};
use weever_policy::{flows, policy};

/// `own` has queue 1 for itself and application `kv` queue 2; all else shares the others.
const POLICY: &str = "
[[class]]
name = \"own\"
match = \"udp and dst net 10.1.0.0/16\"
queues = { only = [1] }

[[dedicate]]
app = \"kv\"
queue = 2
";

/// Flows of which some can be told by masks only, so that a table without those has to say more than
/// is meant.
const OF_OWN: [&str; 5] = [
    "udp and dst net 10.1.0.0/17",
    "udp dst port 53 and dst net 10.1.0.0/16",
    "udp and src net 192.168.0.0/13 and dst host 10.1.2.3",
    "udp dst portrange 1000-1999 and dst host 10.1.9.9",
    "udp 10.9.9.9:5 -> 10.1.0.1:11211",
];
const OF_KV: [&str; 4] = [
    "tcp and dst net 10.2.0.0/15",
    "tcp dst portrange 6000-6005",
    "tcp[tcpflags] & tcp-syn != 0 and dst port 7000",
    "tcp *:* -> 10.2.0.1:443",
];
const OF_OTHERS: [&str; 3] =
    ["udp and src net 10.0.0.0/9", "udp 10.9.9.9:6 -> 10.3.0.1:11211", "tcp dst port 80"];

struct Dice(u64);

impl Dice {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(n)
    }
}

/// Some of the flows as a file, and the packets of each that may come to queues 1 and 2.
fn some(dice: &mut Dice) -> String {
    let mut file = String::new();
    let mut add = |lines: &[&str], settings: &str| {
        for line in lines.iter().filter(|_| dice.one_in(2)) {
            file.push_str(&format!("{line} {settings}\n"));
        }
    };
    add(&OF_OWN, "");
    add(&OF_KV, "app=kv");
    add(&OF_OTHERS, "");
    file
}

#[test]
fn what_nobody_registered_stays_out_of_queues_that_somebody_has_for_itself() {
    let mut page = policy::parse(POLICY).unwrap_or_else(|e| panic!("{e}"));
    let mut satisfied = [0; 7];
    let names = ["xdp", "connectx5", "e810", "x710", "82599", "ena", "sfc9020"];
    for (name, satisfied) in names.iter().zip(&mut satisfied) {
        let prg = weever_models::nic(name).unwrap();
        let nic = Nic::of(&prg).unwrap().with_queues(5).unwrap();
        for seed in 0..12 {
            let list = flows::parse(some(&mut Dice(seed)).as_bytes());
            assert!(list.problems.is_empty(), "{}", list.problems);
            let (flows, _) = page.classify(list.flows);
            let kv = page.apps.iter().position(|app| app == "kv").map(|at| at as u32);
            let mut allowed: [Vec<Conj>; 2] = Default::default();
            for flow in &flows {
                let is_kv = flow.app.is_some_and(|app| Some(app.0) == kv);
                let to = if is_kv { 1 } else { 0 };
                if is_kv || page.document.class_name(flow.class) == "own" {
                    allowed[to].extend(flow.parts.iter().cloned());
                }
            }
            let mut search = Search::new(nic.clone(), page.cost_function(None), Options::default());
            search.run(flows);
            let plan = search.plan();
            if !plan.is_acceptable() {
                continue;
            }
            *satisfied += usize::from(!plan.rules.is_empty());
            let configuration = plan.configuration(search.nic().tables.len());
            for arrival in arrivals(search.nic(), &configuration) {
                let Some(allowed) = allowed.get(arrival.queue.wrapping_sub(1) as usize) else {
                    continue;
                };
                for part in &arrival.parts {
                    let is_own = allowed.iter().any(|own| part.implies(own));
                    let queue = arrival.queue;
                    assert!(is_own, "{name} seed {seed}: {part:?} at queue {queue}");
                }
            }
        }
    }
    assert!(satisfied[..2].iter().all(|n| *n > 3), "{names:?}: {satisfied:?}");
}
