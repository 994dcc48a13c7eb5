//! Where packets go that no table took: by a hash, or to the default queue.

use weever_graph::Field;
use weever_graph::nic::{FlowType, RssFields, RssHash};

use super::placement::{Placement, PlacementSum};
use super::toeplitz::Toeplitz;
use crate::config::Rss;
use crate::flow::{Conj, Kinds};
use crate::nic::Nic;

/// The kinds of packets that are hashed alike.
#[derive(Clone, Debug)]
struct Group {
    kinds: Kinds,
    fields: &'static [Field],
}

/// The spreading, on a configured NIC, of packets that its tables leave.
#[derive(Clone)]
pub(crate) struct Spreading {
    /// The table of queues that the hash points into; one entry if nothing is hashed.
    table: Vec<u32>,
    key: Option<Toeplitz>,
    groups: Vec<Group>,
    /// The placement of packets that are spread over the whole table, and of packets with an unknown
    /// place in it.
    everywhere: Placement,
    somewhere: Placement,
}

impl Spreading {
    pub(crate) fn new(nic: &Nic, rss: &Rss) -> Spreading {
        let hashes = nic.rss.as_ref().filter(|_| !rss.table.is_empty());
        let table = if hashes.is_some() { rss.table.clone() } else { vec![nic.default_queue] };
        let toeplitz = hashes.is_some_and(|r| matches!(r.hash, RssHash::Toeplitz { .. }));
        let key = rss.key.as_deref().filter(|_| toeplitz).map(Toeplitz::new);
        let groups = match hashes {
            Some(model) => groups(|t| rss.fields_of(model, t)),
            None => vec![Group { kinds: Kinds::ALL, fields: &[] }],
        };
        let everywhere = over(table.iter().copied(), true);
        let somewhere = over(table.iter().copied(), false);
        Spreading { table, key, groups, everywhere, somewhere }
    }

    /// The queues of the whole table.
    pub(super) fn everywhere(&self) -> &Placement {
        &self.everywhere
    }

    /// The placement of the packets of `conj`.
    pub(crate) fn place(&self, conj: &Conj) -> Placement {
        let meets = |g: &&Group| !g.kinds.and(conj.kinds()).is_empty();
        let mut met = self.groups.iter().filter(meets);
        let (Some(first), second) = (met.next(), met.next()) else {
            return Placement::One(self.table[0]);
        };
        if second.is_none() {
            return self.place_hashed(conj, first.fields);
        }
        let parts = self.groups.iter().filter(meets).map(|group| {
            let part = conj.clone().of(group.kinds);
            (self.place_hashed(&part, group.fields), conj.share_of(&part))
        });
        let parts: Vec<(Placement, f64)> = parts.collect();
        if parts.iter().all(|(placement, _)| *placement == parts[0].0) {
            return parts[0].0.clone();
        }
        let mut mix = PlacementSum::default();
        parts.iter().for_each(|(placement, share)| mix.merge(placement, *share));
        mix.finish()
    }

    fn place_hashed(&self, conj: &Conj, fields: &[Field]) -> Placement {
        if fields.is_empty() {
            return Placement::One(self.table[0]);
        }
        if let Placement::One(queue) = self.everywhere {
            return Placement::One(queue);
        }
        let decided = fields.iter().all(|f| conj.single(*f).is_some());
        match &self.key {
            None if decided => self.somewhere.clone(),
            None => self.everywhere.clone(),
            Some(key) => self.place_known(key, conj, fields),
        }
    }

    /// The hash is linear in the bits of its input, so a conjunction of masks reaches an affine space
    /// of hashes: the hash of its fixed bits plus the span of its free bits.
    fn place_known(&self, key: &Toeplitz, conj: &Conj, fields: &[Field]) -> Placement {
        let n = self.table.len();
        let mut hash = 0;
        let mut span: Vec<u32> = Vec::new();
        let mut at = 0;
        for field in fields {
            let (mask, value) = match conj.test(*field) {
                Some(values) if values.range.is_some() => return self.everywhere.clone(),
                Some(values) => (values.mask, values.value),
                None => (0, 0),
            };
            hash ^= key.part(value, field.bits(), at);
            if mask != field.full_mask() {
                if !n.is_power_of_two() {
                    return self.everywhere.clone();
                }
                let free = (0..field.bits()).filter(|b| mask >> b & 1 == 0);
                for bit in free {
                    insert(&mut span, key.part(1 << bit, field.bits(), at) & (n as u32 - 1));
                }
            }
            at += field.bits() as usize / 8;
        }
        let first = hash as usize % n;
        match span.len() {
            0 => Placement::One(self.table[first]),
            bits if 1 << bits == n => self.everywhere.clone(),
            _ => over(combinations(&span).map(|c| self.table[first ^ c as usize]), true),
        }
    }
}

/// Adds a vector to a basis over GF(2), unless it is a sum of vectors already in the basis.
fn insert(basis: &mut Vec<u32>, mut vector: u32) {
    for b in basis.iter() {
        vector = vector.min(vector ^ b);
    }
    if vector != 0 {
        basis.push(vector);
        basis.sort_unstable_by(|a, b| b.cmp(a));
    }
}

fn combinations(basis: &[u32]) -> impl Iterator<Item = u32> + '_ {
    (0..1u32 << basis.len()).map(|choice| {
        let chosen = basis.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1);
        chosen.fold(0, |sum, (_, b)| sum ^ b)
    })
}

fn over(queues: impl Iterator<Item = u32>, certain: bool) -> Placement {
    let mut mix = PlacementSum::default();
    mix.certain = certain;
    queues.for_each(|q| mix.add(q, 1.0));
    mix.finish()
}

/// Groups all kinds by their hashed fields. Later fragments have no ports, so only their addresses are
/// hashed.
fn groups(fields_of: impl Fn(FlowType) -> RssFields) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in Kinds::ALL.each() {
        let ports = kind.within(Kinds::with(Field::L4Src));
        let flow_type = FlowType::ALL.into_iter().find(|t| kind.within(Kinds::of(*t)));
        let flow_type = flow_type.unwrap_or(FlowType::Ether);
        let fields = match (fields_of(flow_type), flow_type.ip_version()) {
            (RssFields::FourTuple, Some(version)) if !ports => {
                RssFields::Addresses.of_version(version)
            }
            (fields, Some(version)) => fields.of_version(version),
            (_, None) => &[],
        };
        match groups.iter_mut().find(|g| g.fields == fields) {
            Some(group) => group.kinds = group.kinds.or(kind),
            None => groups.push(Group { kinds: kind, fields }),
        }
    }
    groups
}
