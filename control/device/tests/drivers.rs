//! Plans on simulated devices that behave as drivers do: each rule is taken and comes back unchanged, and each
//! packet that the plan claims something about arrives where the plan says.

use weever_device::actions::{Record, bring};
use weever_device::ethtool::{Action, Packet, Profile, Simulated};
use weever_graph::nic::{Form, Forms};
use weever_graph::{Field, Predicate};
use weever_plan::config::Target;
use weever_plan::flow::{ClassId, Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
use weever_plan::search::{Options, PlannedRule, Search};

const QUEUES: u32 = 6;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u64) as usize]
    }
}

/// Fields of a packet, few values each, so that rules meet them.
struct Described {
    fields: Vec<(Field, u128)>,
    forms: Forms,
}

impl Described {
    fn random(dice: &mut Dice) -> Described {
        let (mut fields, mut forms) = (Vec::new(), Forms::default());
        match dice.roll(12) {
            0 | 1 => fields.push((Field::VlanId, dice.one_of(&[7, 9]))),
            2 => {
                fields.push((Field::VlanId, dice.one_of(&[7, 9])));
                forms = forms.and(Form::Stacked);
            }
            _ => {}
        }
        match dice.roll(10) {
            0 => fields.push((Field::EthType, 0x0806)),
            1..4 => Described::ip6(dice, &mut fields, &mut forms),
            _ => Described::ip4(dice, &mut fields, &mut forms),
        }
        Described { fields, forms }
    }

    fn ip4(dice: &mut Dice, fields: &mut Vec<(Field, u128)>, forms: &mut Forms) {
        let protocol = dice.one_of(&[17, 17, 17, 6, 6, 132, 1, 4, 47, 89]);
        let fragment = dice.one_of(&[0, 0, 0, 0, 0, 0, 0x2000, 0x2005, 7]);
        fields.extend([
            (Field::EthType, 0x0800),
            (Field::IpVersion, 4),
            (Field::Ip4Proto, protocol),
            (Field::Ip4Frag, fragment),
            (Field::Ip4Src, 0x0a00_0000 + u128::from(dice.roll(4))),
            (Field::Ip4Dst, 0x0a00_0100 + u128::from(dice.roll(4))),
        ]);
        let each = [
            (fragment == 0x2000, Form::First),
            (fragment & 0x1fff != 0, Form::Later),
            (dice.roll(8) == 0, Form::Options),
            ([4, 47].contains(&protocol), Form::Tunnels),
        ];
        *forms =
            each.into_iter().filter(|(is, _)| *is).fold(*forms, |all, (_, form)| all.and(form));
        if fragment & 0x1fff == 0 && [6, 17, 132].contains(&protocol) {
            Described::ports(dice, fields);
        }
    }

    fn ip6(dice: &mut Dice, fields: &mut Vec<(Field, u128)>, forms: &mut Forms) {
        let next = dice.one_of(&[17, 17, 6, 6, 132, 58, 0, 44, 43, 41, 89]);
        fields.extend([
            (Field::EthType, 0x86dd),
            (Field::Ip6Next, next),
            (Field::Ip6Src, 0xfd00 << 112 | u128::from(dice.roll(4))),
            (Field::Ip6Dst, 0xfd00 << 112 | 0x100 | u128::from(dice.roll(4))),
        ]);
        match next {
            0 | 43 | 44 => *forms = forms.and(Form::Extensions),
            41 => *forms = forms.and(Form::Tunnels),
            6 | 17 | 132 => Described::ports(dice, fields),
            _ => {}
        }
    }

    fn ports(dice: &mut Dice, fields: &mut Vec<(Field, u128)>) {
        fields.push((Field::L4Src, dice.one_of(&[53, 80, 1000])));
        fields.push((Field::L4Dst, dice.one_of(&[53, 80, 1000])));
    }

    fn value(&self, field: Field) -> Option<u128> {
        self.fields.iter().find(|(f, _)| *f == field).map(|(_, value)| *value)
    }

    /// Whether a plan claims something about such packets: no table of the NIC leaves one of its forms open for
    /// rules that might match it.
    fn is_claimed(&self, nic: &Nic) -> bool {
        let open = |t: &weever_plan::nic::Table| {
            let types = t.model.flow_types.iter().filter(|t| {
                let version = if self.value(Field::EthType) == Some(0x86dd) { 6 } else { 4 };
                t.ip_version().is_none_or(|v| v == version) || self.forms.contains(Form::Tunnels)
            });
            let mut forms = types.map(|flow| t.model.unclaimed.of(*flow));
            forms.any(|open| self.forms.iter().any(|form| open.contains(form)))
        };
        // Flows by ports are whole packets, and a fragment may be one of a datagram that has them.
        !nic.tables.iter().any(open)
    }
}

/// A flow of what people register: connections, services, hosts, prefixes, protocols, tags.
fn flow(dice: &mut Dice) -> Conj {
    let ip =
        |protocol: u128| Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, protocol);
    let protocol = dice.one_of(&[17, 6]);
    let (src, dst) =
        (0x0a00_0000 + u128::from(dice.roll(4)), 0x0a00_0100 + u128::from(dice.roll(4)));
    let port = dice.one_of(&[53, 80, 1000]);
    match dice.roll(10) {
        0 | 1 => ip(protocol)
            .with(Field::Ip4Src, src)
            .with(Field::Ip4Dst, dst)
            .with(Field::L4Src, port)
            .with(Field::L4Dst, dice.one_of(&[53, 80, 1000])),
        2 => ip(protocol).with(Field::L4Dst, port),
        3 => Conj::all()
            .with(Field::EthType, 0x86dd)
            .with(Field::Ip6Next, protocol)
            .with(Field::L4Dst, port),
        4 => Conj::all().with(Field::Ip4Src, src),
        5 => ip(protocol).having(Values::masked(Field::Ip4Src, 0xffff_fffe, src)),
        6 => Conj::all().with(Field::VlanId, 7).and(&ip(protocol)).with(Field::L4Dst, port),
        7 => ip(protocol).with(Field::Ip4Dst, dst),
        8 => ip(protocol).with(Field::Ip4Dst, dst).with(Field::L4Dst, port),
        _ => Conj::all().with(Field::EthType, 0x86dd).with(Field::Ip6Src, 0xfd00 << 112 | 1),
    }
}

fn policy() -> Box<dyn Policy> {
    let balance = || -> Box<dyn Policy> { Box::new(Balance::new(Measure::Flows)) };
    let class = |name: &str, share| (name.to_string(), share, balance());
    let (one, two) = (class("one", Share::Exclusive(1)), class("two", Share::Exclusive(2)));
    Box::new(Isolate::new(vec![class("rest", Share::Shared), one, two]))
}

fn search(nic: &Nic, dice: &mut Dice) -> Search {
    let mut search = Search::new(nic.clone(), policy(), Options::default());
    let count = 3 + dice.roll(8);
    let flows = (0..count).map(|i| {
        let mut flow = Flow::of(format!("flow {i}"), vec![flow(dice)]);
        flow.class = ClassId(dice.roll(3) as u16);
        flow
    });
    search.run(flows.collect());
    search
}

/// Some context: the device numbers them.
const SPREAD: Action = Action::Context { context: 0, queue: 0 };

/// The action that the plan's rules have for a packet.
fn planned(rules: &[(Predicate, PlannedRule)], packet: &Described) -> Option<Action> {
    let takes =
        |(said, _): &&(Predicate, PlannedRule)| said.eval(&|field| packet.value(field), &|_| false);
    rules.iter().find(takes).map(|(_, planned)| match planned.rule.target {
        Target::Queue(queue) => Action::Queue(queue),
        Target::Drop => Action::Drop,
        Target::Context(_) => SPREAD,
    })
}

fn unnumbered(action: Action) -> Action {
    if matches!(action, Action::Context { .. }) { SPREAD } else { action }
}

/// A model is tested here, or Linux lets nobody make rules on its NIC, or a program takes its filters, which
/// `weever bench steer-xdp` tests in the kernel.
#[test]
fn every_model_with_rules_is_held_against_its_driver() {
    for name in weever_models::nics() {
        let nic = Nic::linux_of(&weever_models::nic(name).unwrap()).unwrap();
        let is_tested = Profile::ALL.iter().any(|(tested, _)| *tested == name);
        assert!(is_tested || nic.tables.is_empty() || name == "xdp", "{name}");
    }
}

#[test]
fn drivers_take_each_rule_and_packets_arrive_where_plans_say() {
    for (model, profile) in Profile::ALL {
        let nic = Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap();
        if nic.tables.is_empty() {
            continue;
        }
        let nic = nic.with_queues(QUEUES).unwrap();
        let (mut claimed, mut by_rules, mut rules_taken) = (0, 0, 0);
        for seed in 0..12 {
            let mut dice = Dice(seed);
            let mut search = search(&nic, &mut dice);
            let mut device = Simulated::of(profile, "sim0", QUEUES, 2048);
            let brought = bring(&mut device, &mut Record::default(), &mut search)
                .unwrap_or_else(|error| panic!("{model}, seed {seed}: {error}"));
            assert_eq!(brought.refused, Vec::<String>::new(), "{model}, seed {seed}");
            let mut rules = search.plan().rules;
            rules_taken += rules.len();
            assert_eq!(device.rules.len(), rules.len(), "{model}, seed {seed}");
            rules.sort_by_key(|r| (r.table, r.rule.rank(nic.tables[r.table].model.order), r.id));
            let said =
                |r: PlannedRule| (r.rule.matches(&nic.tables[r.table].model).to_predicate(), r);
            let rules: Vec<_> = rules.into_iter().map(said).collect();
            for _ in 0..1000 {
                let packet = Described::random(&mut dice);
                if !packet.is_claimed(&nic) {
                    continue;
                }
                claimed += 1;
                let expected = planned(&rules, &packet);
                by_rules += usize::from(expected.is_some());
                let field = |field| packet.value(field);
                let taken = device.takes(&Packet { field: &field, forms: packet.forms });
                let taken = taken.map(|action| action.map(unnumbered));
                let what = format!("{model}, seed {seed}: {:?} {:?}", packet.fields, packet.forms);
                assert_eq!(taken, Some(expected), "{what}\n{:?}", device.rules);
            }
        }
        // Random packets seldom meet the rules of `sfc_siena`, which all test a protocol, an address and a port.
        assert!(
            claimed > 5_000 && by_rules > 40,
            "{model}: {claimed} claimed, {by_rules} by rules"
        );
        assert!(rules_taken > 12, "{model}: {rules_taken} rules");
    }
}
