//! The operations on conjunctions, checked by a SAT solver over the bits of a packet.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rustsat::solvers::{Solve, SolverResult};
use rustsat::types::{Clause, Lit};
use rustsat_batsat::BasicSolver;
use weever_graph::{Field, Predicate};

use super::packets::predicate;
use crate::flow::{conjunctions, conjunctions_of_not};

/// A packet as literals: the bits of each field, whether the field is present, and the value of its
/// label.
struct Bits {
    solver: BasicSolver,
    next: u32,
    fields: BTreeMap<Field, Vec<Lit>>,
    present: BTreeMap<Field, Lit>,
    labels: BTreeMap<String, Lit>,
    yes: Lit,
}

impl Bits {
    fn new() -> Bits {
        let mut bits = Bits {
            solver: BasicSolver::default(),
            next: 1,
            fields: BTreeMap::new(),
            present: BTreeMap::new(),
            labels: BTreeMap::new(),
            yes: Lit::positive(0),
        };
        bits.require(vec![bits.yes]);
        for field in Field::ALL {
            let lits = (0..field.bits()).map(|_| bits.fresh()).collect();
            bits.fields.insert(field, lits);
        }
        bits.well_formed();
        for label in ["a", "b"] {
            let lit = bits.fresh();
            bits.labels.insert(label.into(), lit);
        }
        let both = bits.labels.values().map(|l| !*l).collect();
        bits.require(both);
        bits
    }

    fn fresh(&mut self) -> Lit {
        self.next += 1;
        Lit::positive(self.next)
    }

    fn require(&mut self, clause: Vec<Lit>) {
        self.solver.add_clause(Clause::from_iter(clause)).unwrap();
    }

    fn all(&mut self, lits: Vec<Lit>) -> Lit {
        let out = self.fresh();
        for lit in &lits {
            self.require(vec![!out, *lit]);
        }
        self.require(lits.iter().map(|l| !*l).chain([out]).collect());
        out
    }

    fn any(&mut self, lits: Vec<Lit>) -> Lit {
        !self.all(lits.into_iter().map(|l| !l).collect())
    }

    fn equals(&mut self, field: Field, mask: u128, value: u128) -> Lit {
        let bits = &self.fields[&field];
        let lits = (0..field.bits()).filter(|b| mask >> b & 1 == 1).map(|b| {
            let lit = bits[b as usize];
            if value >> b & 1 == 1 { lit } else { !lit }
        });
        let lits = lits.collect();
        self.all(lits)
    }

    /// `field <= limit`: some bit of the limit is 1 where the field's is 0 and all above agree.
    fn at_most(&mut self, field: Field, limit: u128) -> Lit {
        let full = field.full_mask();
        let mut ways = vec![self.equals(field, full, limit)];
        for b in (0..field.bits()).filter(|b| limit >> b & 1 == 1) {
            let mask = full >> b << b;
            ways.push(self.equals(field, mask, (limit & mask) ^ (1 << b)));
        }
        self.any(ways)
    }

    fn is(&mut self, field: Field, value: u128) -> Lit {
        self.equals(field, field.full_mask(), value)
    }

    /// Which fields a packet has, once more without `Kinds`.
    fn well_formed(&mut self) {
        let (ip4, ip6) = (self.is(Field::EthType, 0x0800), self.is(Field::EthType, 0x86dd));
        let arp = self.is(Field::EthType, 0x0806);
        let first = self.equals(Field::Ip4Frag, 0x1fff, 0);
        let tagged = self.fresh();
        let proto = |bits: &mut Bits, p4: u128, p6: u128| {
            let (is4, is6) = (bits.is(Field::Ip4Proto, p4), bits.is(Field::Ip6Next, p6));
            let four = bits.all(vec![ip4, first, is4]);
            let six = bits.all(vec![ip6, is6]);
            bits.any(vec![four, six])
        };
        let icmp = proto(self, 1, 58);
        let tcp = proto(self, 6, 6);
        let (udp, sctp) = (proto(self, 17, 17), proto(self, 132, 132));
        let ports = self.any(vec![tcp, udp, sctp]);
        let version = self.is(Field::IpVersion, 4);
        self.require(vec![!ip4, version]);
        for field in Field::ALL {
            let lit = match field {
                Field::EthDst | Field::EthSrc | Field::EthType | Field::FrameLen => self.yes,
                Field::VlanId => tagged,
                Field::ArpOp | Field::ArpTpa => arp,
                Field::Ip6Src | Field::Ip6Dst | Field::Ip6Next => ip6,
                Field::IcmpType | Field::IcmpCode => icmp,
                Field::L4Src | Field::L4Dst => ports,
                Field::TcpFlags => tcp,
                _ => ip4,
            };
            self.present.insert(field, lit);
        }
    }

    fn holds(&mut self, predicate: &Predicate) -> Lit {
        match predicate {
            Predicate::True => self.yes,
            Predicate::False => !self.yes,
            Predicate::Match { field, mask, value } => {
                let equal = self.equals(*field, *mask, *value);
                let there = self.present[field];
                self.all(vec![there, equal])
            }
            Predicate::Range { field, lo, hi } => {
                let below = if *lo == 0 { !self.yes } else { self.at_most(*field, lo - 1) };
                let (within, there) = (self.at_most(*field, *hi), self.present[field]);
                self.all(vec![there, within, !below])
            }
            Predicate::Atom { value, .. } => self.labels[value],
            Predicate::Compare { .. } | Predicate::Member { .. } => {
                unreachable!("the algebra takes {predicate:?} as a label")
            }
            Predicate::Not(p) => !self.holds(p),
            Predicate::And(ps) => {
                let lits = ps.iter().map(|p| self.holds(p)).collect();
                self.all(lits)
            }
            Predicate::Or(ps) => {
                let lits = ps.iter().map(|p| self.holds(p)).collect();
                self.any(lits)
            }
        }
    }
}

/// Whether some packet fulfils all of these.
fn satisfiable(predicates: &[&Predicate]) -> bool {
    let mut bits = Bits::new();
    for predicate in predicates {
        let lit = bits.holds(predicate);
        bits.require(vec![lit]);
    }
    bits.solver.solve().unwrap() == SolverResult::Sat
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn satisfiability_agrees(p in predicate()) {
        let Ok(conjs) = conjunctions(&p, 4096) else { return Ok(()) };
        prop_assert_eq!(!conjs.is_empty(), satisfiable(&[&p]), "{:?}", p);
        let Ok(not) = conjunctions_of_not(&p, 4096) else { return Ok(()) };
        prop_assert_eq!(!not.is_empty(), satisfiable(&[&Predicate::Not(Box::new(p))]));
    }

    #[test]
    fn conjunction_and_implication_agree(p in predicate(), q in predicate()) {
        let (Ok(ps), Ok(qs)) = (conjunctions(&p, 64), conjunctions(&q, 64)) else { return Ok(()) };
        for (a, b) in ps.iter().zip(&qs).take(3) {
            let (pa, pb) = (a.to_predicate(), b.to_predicate());
            let not_b = Predicate::Not(Box::new(pb.clone()));
            prop_assert_eq!(!a.disjoint(b), satisfiable(&[&pa, &pb]), "{:?} {:?}", a, b);
            prop_assert_eq!(a.implies(b), !satisfiable(&[&pa, &not_b]), "{:?} {:?}", a, b);
        }
    }
}
