//! Where packets go that no table took: by a Toeplitz hash, or to the default queue. Further tables of
//! the hash (contexts) are for rules that spread over some queues.

use weever_graph::Field;
use weever_graph::nic::{FlowType, RssFields, RssHash};

use super::placement::{Placement, PlacementSum};
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
    /// The queue of packets that are not hashed.
    unhashed: u32,
    key: Option<Toeplitz>,
    /// Whether the key hashes OR and XOR of pairs of fields.
    symmetric: bool,
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
        let unhashed = hashes.and_then(|model| model.unhashed).filter(|q| nic.queues.contains(*q));
        let unhashed = unhashed.unwrap_or(table[0]);
        let symmetric = hashes.and_then(|model| match model.hash {
            RssHash::Toeplitz { symmetric, .. } => Some(symmetric),
            _ => None,
        });
        let key = rss.key.as_deref().filter(|_| symmetric.is_some()).map(Toeplitz::new);
        let symmetric = symmetric.unwrap_or_default();
        let groups = match hashes {
            Some(model) => groups(|t| rss.fields_of(model, t)),
            None => vec![Group { kinds: Kinds::ALL, fields: &[] }],
        };
        let everywhere = over(table.iter().copied(), true);
        let somewhere = over(table.iter().copied(), false);
        Spreading { table, unhashed, key, symmetric, groups, everywhere, somewhere }
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
            return Placement::One(self.unhashed);
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
            return Placement::One(self.unhashed);
        }
        if let Placement::One(queue) = self.everywhere {
            return Placement::One(queue);
        }
        let decided = fields.iter().all(|f| conj.single(*f).is_some());
        match &self.key {
            None if decided => self.somewhere.clone(),
            None => self.everywhere.clone(),
            Some(key) if self.symmetric => self.place_symmetric(key, conj, fields),
            Some(key) => self.place_known(key, conj, fields),
        }
    }

    /// OR is not linear, so only the place of a connection is known.
    fn place_symmetric(&self, key: &Toeplitz, conj: &Conj, fields: &[Field]) -> Placement {
        let (mut hash, mut at) = (0, 0);
        for pair in fields.chunks_exact(2) {
            let ends = conj.single(pair[0]).zip(conj.single(pair[1]));
            let Some((one, other)) = ends else { return self.everywhere.clone() };
            let bits = pair[0].bits();
            for value in [one | other, one ^ other] {
                hash ^= key.part(value, bits, at);
                at += bits as usize / 8;
            }
        }
        Placement::One(self.table[hash as usize % self.table.len()])
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

/// Groups all kinds by their hashed fields. Of fragments only the addresses are hashed, also of the first, so
/// that a datagram stays together.
fn groups(fields_of: impl Fn(FlowType) -> RssFields) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in Kinds::ALL.each() {
        let ports = kind.within(Kinds::with(Field::L4Src).without(Kinds::FIRST_FRAGMENTS));
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

/// Source and destination of IPv6 and two ports: the longest input.
const LONGEST: usize = 36;

/// A key, with the hash of every byte at every place of the input.
#[derive(Clone)]
pub(crate) struct Toeplitz {
    by_byte: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Prepares `key`. Places behind its end count as zeros, as a short key does not reach them.
    pub(crate) fn new(key: &[u8]) -> Toeplitz {
        let by_byte = (0..LONGEST).map(|at| byte_hashes(key, at)).collect();
        Toeplitz { by_byte }
    }

    /// The contribution of `value`, `bits` wide and placed at byte `at` of the input, to the hash.
    pub(crate) fn part(&self, value: u128, bits: u32, at: usize) -> u32 {
        let bytes = bits as usize / 8;
        let each = (0..bytes).map(|i| {
            let byte = (value >> (8 * (bytes - 1 - i))) as u8;
            self.by_byte[at + i][usize::from(byte)]
        });
        each.fold(0, |hash, part| hash ^ part)
    }
}

fn byte_hashes(key: &[u8], at: usize) -> [u32; 256] {
    // The 32 bits of the key from bit `8 * at + i` on belong to bit `i` of the byte.
    let window = key.iter().copied().chain(std::iter::repeat(0)).skip(at).take(5);
    let window = window.fold(0u64, |w, byte| w << 8 | u64::from(byte));
    let mut hashes = [0; 256];
    for (byte, hash) in hashes.iter_mut().enumerate() {
        for bit in (0..8).filter(|bit| byte >> (7 - bit) & 1 == 1) {
            *hash ^= (window >> (8 - bit)) as u32;
        }
    }
    hashes
}

/// One context.
struct Slot {
    queues: Vec<u32>,
    spreading: Spreading,
    users: u32,
}

/// The contexts that rules use. A number means the same queues for as long as a rule uses it.
#[derive(Default)]
pub(crate) struct Contexts {
    slots: Vec<Slot>,
}

impl Contexts {
    /// The number of a context that spreads over `queues`: an existing one, or a new one while fewer
    /// than `most` are in use. Nothing if there is none, or the hash cannot name two of the queues.
    pub(crate) fn over(&mut self, nic: &Nic, rss: &Rss, queues: &[u32], most: u32) -> Option<u32> {
        let same = self.slots.iter().position(|s| s.queues == queues);
        if let Some(at) = same.filter(|at| self.slots[*at].users > 0 || self.count() < most) {
            return Some(at as u32);
        }
        let Rss { table, .. } = Rss::over(nic, queues, None);
        if self.count() >= most || table.iter().all(|q| *q == table[0]) {
            return None;
        }
        let spreading = Spreading::new(nic, &Rss { table, ..rss.clone() });
        let slot = Slot { queues: queues.to_vec(), spreading, users: 0 };
        let at = self.slots.iter().position(|s| s.users == 0).unwrap_or(self.slots.len());
        match self.slots.get_mut(at) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        Some(at as u32)
    }

    pub(super) fn spreading(&self, context: u32) -> &Spreading {
        &self.slots[context as usize].spreading
    }

    /// The queues that a context reaches.
    pub(super) fn queues(&self, context: u32) -> Vec<u32> {
        match self.spreading(context).everywhere() {
            Placement::One(queue) => vec![*queue],
            spread => spread.shares().map(|(queue, _)| queue).collect(),
        }
    }

    pub(super) fn used(&mut self, context: u32, by: i32) {
        let users = &mut self.slots[context as usize].users;
        *users = users.saturating_add_signed(by);
    }

    pub(super) fn start_over(&mut self) {
        self.slots.iter_mut().for_each(|s| s.users = 0);
    }

    /// The queues of each context, none for unused contexts.
    pub(crate) fn in_use(&self) -> Vec<Vec<u32>> {
        let queues = |s: &Slot| if s.users > 0 { s.queues.clone() } else { Vec::new() };
        self.slots.iter().map(queues).collect()
    }

    /// The number of contexts in use.
    pub(crate) fn count(&self) -> u32 {
        self.slots.iter().filter(|s| s.users > 0).count() as u32
    }

    /// Restores the contexts that [`Contexts::in_use`] returned.
    pub(crate) fn restore(&mut self, nic: &Nic, rss: &Rss, all: &[Vec<u32>]) {
        let slot = |queues: &Vec<u32>| {
            let Rss { table, .. } = Rss::over(nic, queues, None);
            let spreading = Spreading::new(nic, &Rss { table, ..rss.clone() });
            Slot { queues: queues.clone(), spreading, users: 0 }
        };
        self.slots = all.iter().map(slot).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of Microsoft's "Verifying the RSS Hash Calculation", and two of its vectors.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn both_directions_of_a_connection_have_one_symmetric_hash() {
        let nic = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
        let queues: Vec<u32> = (1..6).collect();
        let spreading = Spreading::new(&nic, &Rss::over(&nic, &queues, Some(KEY.to_vec())));
        let udp = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
        let connection = |a: (u128, u128), b: (u128, u128)| {
            let from = udp.clone().with(Field::Ip4Src, a.0).with(Field::L4Src, a.1);
            from.with(Field::Ip4Dst, b.0).with(Field::L4Dst, b.1).by_ports()
        };
        let mut queues_met = std::collections::BTreeSet::new();
        for client in 0..32 {
            let (a, b) = ((0x0a00_0001 + client, 1000), (0x0a00_0100, 53));
            let there = spreading.place(&connection(a, b));
            assert_eq!(there, spreading.place(&connection(b, a)));
            queues_met.insert(there.queue().expect("one queue"));
        }
        assert!(queues_met.len() > 2, "{queues_met:?}");
        let client = udp.clone().with(Field::Ip4Src, 9);
        assert_eq!(spreading.place(&client).shares().count(), 5, "OR is not linear");
    }

    #[test]
    fn packets_without_a_hash_may_have_a_queue_of_their_own() {
        let nic = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
        let spreading = Spreading::new(&nic, &Rss::over(&nic, &[2, 3], None));
        let arp = Conj::all().with(Field::EthType, 0x0806);
        assert_eq!(spreading.place(&arp), Placement::One(0));
        assert!(spreading.place(&Conj::all()).reaches(0));
    }

    #[test]
    fn published_vectors() {
        let t = Toeplitz::new(&KEY);
        let source = u128::from(u32::from_be_bytes([66, 9, 149, 187]));
        let destination = u128::from(u32::from_be_bytes([161, 142, 100, 80]));
        let addresses = t.part(source, 32, 0) ^ t.part(destination, 32, 4);
        assert_eq!(addresses, 0x323e_8fc2);
        assert_eq!(addresses ^ t.part(2794, 16, 8) ^ t.part(1766, 16, 10), 0x51cc_c178);
        let source: u128 = 0x3ffe_2501_0200_1fff_0000_0000_0000_0007;
        let destination: u128 = 0x3ffe_2501_0200_0003_0000_0000_0000_0001;
        let addresses = t.part(source, 128, 0) ^ t.part(destination, 128, 16);
        assert_eq!(addresses, 0x2cc1_8cd5);
        assert_eq!(addresses ^ t.part(2794, 16, 32) ^ t.part(1766, 16, 34), 0x4020_7d3d);
    }
}
