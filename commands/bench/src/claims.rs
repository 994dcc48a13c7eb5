//! What plans claim, held against the generated program: random frames (tags, fragments, options, extension
//! headers, tunnels) run through the program of random plans, and each is counted as wrong that
//! another rule took than the plan says, or that arrived at an exclusive queue without being of its class.
//!
//! Frames are described by the walk that captures use, and judged by the plan's rules and by the filters as
//! people wrote them. The kernel runs the program; its hit counters say which rule took a frame.

use fastrand::Rng;
use weever_device::xdp::XdpSteering;
use weever_ebpf::xdp::classify::Sink;
use weever_graph::{Field, Predicate};
use weever_plan::config::Target;
use weever_plan::flow::{ClassId, Flow};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
use weever_plan::search::{Options, PlannedQueue, PlannedRule, RuleId, Search};
use weever_wire::fields::{Parsed, summarize};

use crate::BenchError;
use crate::frames::random_frame;

/// Frames of a round, and how many rounds make the million of a full measurement.
pub(crate) const FRAMES: usize = 100_000;
pub(crate) const ROUNDS: usize = 10;
/// Frames of one plan.
const OF_A_PLAN: usize = 20_000;
const QUEUES: u32 = 8;

/// The class that has two queues for itself, and what others register.
const OWN: [&str; 6] = [
    "udp dst port 53 and dst net 10.0.1.0/24",
    "udp dst port 53",
    "ip and tcp dst port 80",
    "vlan 7 and udp dst port 80",
    "ip6 and udp src port 53",
    "ip src host 10.0.1.1",
];
const OTHERS: [&str; 14] = [
    "ip and udp src port 1000 and src host 10.0.0.1",
    "ip and udp and src host 10.0.0.2 and dst host 10.0.1.1 and src port 1000 and dst port 80",
    "ip and tcp and src host 10.0.0.3 and dst host 10.0.1.2 and src port 53 and dst port 80",
    "ip src net 10.0.2.0/24",
    "ip and icmp",
    "ip proto 47",
    "ip6 and tcp dst port 53",
    "ip6 src net fd00::/64",
    "tcp[tcpflags] & tcp-syn != 0 and dst port 1000",
    "vlan 9",
    "vlan 7 and tcp",
    "ether proto 0x0806",
    "ip and udp dst port 1000",
    "ip and sctp and src port 80",
];

/// A plan, its program, and the filter of its exclusive class.
struct Trial {
    search: Search,
    steering: XdpSteering,
    own: Predicate,
}

/// The number of frames that a plan's program treats otherwise than the plan says, of `frames`.
///
/// # Errors
/// [`BenchError::Rights`] without the right to load programs.
pub(crate) fn wrong(frames: usize, seed: u64) -> Result<u64, BenchError> {
    let mut rng = Rng::with_seed(seed);
    let mut wrong = 0;
    let mut left = frames;
    while left > 0 {
        let mut trial = Trial::random(&mut rng)?;
        let count = left.min(OF_A_PLAN);
        wrong += trial.wrong(count, &mut rng)?;
        left -= count;
    }
    Ok(wrong)
}

impl Trial {
    fn random(rng: &mut Rng) -> Result<Trial, BenchError> {
        let model = weever_models::nic("xdp").map_err(BenchError::of("NIC model"))?;
        let nic = Nic::of(&model).map_err(BenchError::of("xdp"))?;
        let nic = nic.with_queues(QUEUES).map_err(BenchError::of("xdp"))?;
        let own = filter(OWN[rng.usize(..OWN.len())])?;
        let mut flows = vec![flow("own", &own, 1)?];
        for text in OTHERS {
            if rng.bool() {
                // Classes with queues for themselves need rules, which overlap.
                flows.push(flow(text, &filter(text)?, [0, 2, 3][rng.usize(..3)])?);
            }
        }
        rng.shuffle(&mut flows);
        let mut search = Search::new(nic, policy(), Options::default());
        search.run(flows);
        let targets = (0..QUEUES).collect();
        let steering = XdpSteering::new(search.nic(), search.rss(), Sink::Count, targets, 1024);
        let mut steering = steering.map_err(|error| match &error {
            weever_device::xdp::XdpError::Bpf(e) if e.is_denied() => {
                BenchError::Rights("steer-xdp")
            }
            _ => BenchError::of("program")(error),
        })?;
        steering.apply(&search.take_changes()).map_err(BenchError::of("program"))?;
        Ok(Trial { search, steering, own })
    }

    /// Runs frames in groups by the rule that is to take them: a group's rule has to count all of it.
    fn wrong(&mut self, count: usize, rng: &mut Rng) -> Result<u64, BenchError> {
        let plan = self.search.plan();
        let nic = self.search.nic().clone();
        let order = |r: &PlannedRule| (r.table, r.rule.rank(nic.tables[r.table].model.order), r.id);
        let mut rules = plan.rules.clone();
        rules.sort_by_key(order);
        let matches = |r: &PlannedRule| r.rule.matches(&nic.tables[r.table].model).to_predicate();
        let predicates: Vec<Predicate> = rules.iter().map(matches).collect();
        let own = |q: &&PlannedQueue| !q.other && q.classes.iter().any(|c| c.0 == ClassId(1));
        let exclusive: Vec<u32> = plan.queues.iter().filter(own).map(|q| q.queue).collect();
        let mut groups: Vec<Vec<Vec<u8>>> = vec![Vec::new(); rules.len() + 1];
        let mut wrong = 0;
        for _ in 0..count {
            let frame = random_frame(rng);
            let parsed = summarize(&frame);
            let taken = predicates.iter().position(|p| holds(p, &parsed));
            if let Some(at) = taken
                && let Target::Queue(queue) = rules[at].rule.target
                && exclusive.contains(&queue)
                && plan.is_acceptable()
                && !holds(&self.own, &parsed)
            {
                wrong += 1;
            }
            groups[taken.unwrap_or(rules.len())].push(frame);
        }
        for (at, group) in groups.iter().enumerate() {
            let before = self.count(rules.get(at).map(|r| r.id))?;
            for frame in group {
                self.steering.classifier().program().run(frame, 1)?;
            }
            let counted = self.count(rules.get(at).map(|r| r.id))? - before;
            wrong += (group.len() as u64).abs_diff(counted);
        }
        Ok(wrong)
    }

    /// How often a rule took a frame so far; without one, how often none did.
    fn count(&self, rule: Option<RuleId>) -> Result<u64, BenchError> {
        let Some(rule) = rule else { return Ok(self.steering.classifier().missed()?) };
        let hits = self.steering.hits().map_err(BenchError::of("program"))?;
        Ok(hits.iter().find(|(id, _)| *id == rule).map_or(0, |(_, hits)| *hits))
    }
}

fn policy() -> Box<dyn Policy> {
    let balance = || -> Box<dyn Policy> { Box::new(Balance::new(Measure::Flows)) };
    Box::new(Isolate::new(vec![
        ("rest".into(), Share::Shared, balance()),
        ("own".into(), Share::Exclusive(2), balance()),
        ("first".into(), Share::Exclusive(1), balance()),
        ("second".into(), Share::Exclusive(1), balance()),
    ]))
}

fn filter(text: &str) -> Result<Predicate, BenchError> {
    weever_unicorn::predicate::parse(text).map_err(BenchError::of("filter"))
}

fn flow(name: &str, predicate: &Predicate, class: u16) -> Result<Flow, BenchError> {
    let mut flow = Flow::new(name, predicate).map_err(BenchError::of("flow"))?;
    flow.class = ClassId(class);
    Ok(flow)
}

/// Whether a predicate holds of a frame; labels do not.
fn holds(predicate: &Predicate, frame: &Parsed) -> bool {
    predicate.eval(&|field| value(frame, field), &|_| false)
}

/// The fields that rules and flows have in common.
fn value(frame: &Parsed, field: Field) -> Option<u128> {
    match field {
        Field::EthDst => frame.eth_dst.map(|mac| mac.to_bits().into()),
        Field::EthSrc => frame.eth_src.map(|mac| mac.to_bits().into()),
        Field::EthType => frame.ethertype.map(u128::from),
        Field::VlanId => frame.vlan.map(u128::from),
        Field::ArpOp => frame.arp_op.map(u128::from),
        Field::ArpTpa => frame.arp_tpa.map(|ip| ip.to_bits().into()),
        Field::Ip4Src => frame.ip4_src.map(|ip| ip.to_bits().into()),
        Field::Ip4Dst => frame.ip4_dst.map(|ip| ip.to_bits().into()),
        Field::Ip4Proto => frame.ip4_proto.map(u128::from),
        Field::Ip4Frag => frame.ip4_frag.map(u128::from),
        Field::IpVersion => frame.ip_version.map(u128::from),
        Field::Ip6Src => frame.ip6_src.map(|ip| ip.to_bits()),
        Field::Ip6Dst => frame.ip6_dst.map(|ip| ip.to_bits()),
        Field::Ip6Next => frame.ip6_next.map(u128::from),
        Field::IcmpType => frame.icmp_type.map(u128::from),
        Field::IcmpCode => frame.icmp_code.map(u128::from),
        Field::L4Src => frame.l4_src.map(u128::from),
        Field::L4Dst => frame.l4_dst.map(u128::from),
        Field::TcpFlags => frame.tcp_flags.map(u128::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_does_what_its_plan_claims() {
        match wrong(40_000, 1) {
            Ok(wrong) => assert_eq!(wrong, 0),
            Err(BenchError::Rights(_)) => println!("skipped: needs CAP_BPF"),
            Err(error) => panic!("{error}"),
        }
    }
}
