//! Sets of values of one field: all values that agree with a mask and lie in a range.

use weever_graph::Field;

use super::kinds::{Domain, Kinds};

/// The values `v` of `field` with `v & mask == value`, and within the range if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Values {
    /// The field.
    pub field: Field,
    /// Bits that count.
    pub mask: u128,
    /// The required value of these bits.
    pub value: u128,
    /// Smallest and largest value. Apart, because ranges are rare and would double the size.
    pub range: Option<Box<(u128, u128)>>,
}

impl Values {
    /// The values that agree with `value` in the bits of `mask`.
    pub fn masked(field: Field, mask: u128, value: u128) -> Values {
        Values { field, mask, value: value & mask, range: None }
    }

    /// Those from `lo` to `hi`. The bits that both ends share become a mask.
    pub fn range(field: Field, lo: u128, hi: u128) -> Values {
        let hi = hi.min(field.full_mask());
        let differ = lo ^ hi;
        let free = if differ == 0 { 0 } else { u128::MAX >> differ.leading_zeros() };
        let mask = field.full_mask() & !free;
        let aligned = lo & free == 0 && hi & free == free;
        let range = (!aligned || lo > hi).then(|| Box::new((lo, hi)));
        Values { field, mask, value: lo & mask, range }
    }

    /// Whether `v` is in the set.
    pub fn contains(&self, v: u128) -> bool {
        v & self.mask == self.value && self.range.as_ref().is_none_or(|r| r.0 <= v && v <= r.1)
    }

    /// The only one, if there is only one.
    pub fn single(&self) -> Option<u128> {
        (self.mask == self.field.full_mask()).then_some(self.value)
    }

    /// Whether it is every value.
    pub fn is_all(&self) -> bool {
        self.mask == 0 && self.range.is_none()
    }

    /// The values in both, if there are any.
    pub fn and(&self, other: &Values) -> Option<Values> {
        if (self.value ^ other.value) & self.mask & other.mask != 0 {
            return None;
        }
        let (mask, value) = (self.mask | other.mask, self.value | other.value);
        let range = match (&self.range, &other.range) {
            (None, None) => None,
            (Some(r), None) | (None, Some(r)) => Some(r.clone()),
            (Some(a), Some(b)) => Some(Box::new((a.0.max(b.0), a.1.min(b.1)))),
        };
        let mut both = Values { field: self.field, mask, value, range };
        if both.range.is_none() {
            return Some(both);
        }
        both.first()?;
        if both.single().is_some() {
            both.range = None;
        }
        Some(both)
    }

    /// A superset of both: the bits on which their masks agree, or the range around both.
    #[must_use]
    pub(crate) fn hull(&self, other: &Values) -> Values {
        if self == other {
            return self.clone();
        }
        let mask = self.mask & other.mask & !(self.value ^ other.value);
        Values::masked(self.field, mask, self.value)
    }

    /// Whether every one is in `other`.
    pub fn within(&self, other: &Values) -> bool {
        if self.range.is_none() && other.range.is_none() {
            return self.requires_bits_of(other);
        }
        if self.plainly_within(other) {
            return true;
        }
        // Where ranges are, one value that is outside is found sooner than all pieces are cut.
        self.first().is_none_or(|first| other.contains(first))
            && !self.outside(other).any(|piece| piece.first().is_some())
    }

    /// Whether every bit that `other` requires is required here, with the same value.
    fn requires_bits_of(&self, other: &Values) -> bool {
        other.mask & !self.mask == 0 && self.value & other.mask == other.value
    }

    /// Whether that can be seen without looking at values: every bit that `other` requires is required, and so is its range.
    fn plainly_within(&self, other: &Values) -> bool {
        self.requires_bits_of(other)
            && other.range.as_ref().is_none_or(|theirs| {
                let free = self.field.full_mask() & !self.mask;
                let all = (self.value, self.value | free);
                let (lo, hi) =
                    self.range.as_deref().map_or(all, |r| (r.0.max(all.0), r.1.min(all.1)));
                theirs.0 <= lo && hi <= theirs.1
            })
    }

    /// The smallest.
    pub(crate) fn first(&self) -> Option<u128> {
        self.next(0)
    }

    /// The smallest that is not below `from`.
    pub(crate) fn next(&self, from: u128) -> Option<u128> {
        let (lo, hi) = match &self.range {
            Some(r) => (from.max(r.0), r.1),
            None => (from, self.field.full_mask()),
        };
        let next = next_match(lo, self.mask, self.value, self.field.full_mask())?;
        (next <= hi).then_some(next)
    }

    /// Whether a value of the set is in `domain`.
    pub(crate) fn meets(&self, domain: Domain) -> bool {
        match domain {
            Domain::OneOf(values) => values.iter().any(|v| self.contains(*v)),
            Domain::AllBut(values) => {
                let mut from = self.first();
                while let Some(v) = from {
                    if !values.contains(&v) {
                        return true;
                    }
                    from = v.checked_add(1).and_then(|v| self.next(v));
                }
                false
            }
        }
    }

    /// Those of `kinds` whose packets may have one of the values, of a field that has to do with the kind.
    pub(crate) fn met_by(&self, kinds: Kinds) -> Kinds {
        let meets = |k: &Kinds| k.domain(self.field).is_none_or(|d| self.meets(d));
        let met = kinds.but_for_tags().each().filter(meets).fold(Kinds::NONE, Kinds::or);
        kinds.and(met.tagged_or_not())
    }

    /// Whether every value of the set that is in `domain` is in `other` as well.
    pub(crate) fn within_given(&self, other: &Values, domain: Domain) -> bool {
        match domain {
            // A few values are looked at one by one; cutting pieces costs a hundred times as much.
            Domain::OneOf(values) => {
                values.iter().all(|v| !self.contains(*v) || other.contains(*v))
            }
            Domain::AllBut(_) if self.plainly_within(other) => true,
            Domain::AllBut(_) => !self.outside(other).any(|piece| piece.meets(domain)),
        }
    }

    /// The values that are not in `other`, in pieces that may overlap.
    fn outside<'a>(&'a self, other: &'a Values) -> impl Iterator<Item = Values> + 'a {
        other.complement().filter_map(|piece| self.and(&piece))
    }

    /// Every other value of the field, in pieces that do not overlap.
    pub(crate) fn complement(&self) -> impl Iterator<Item = Values> + '_ {
        let field = self.field;
        // The range's complement first; then, within the range, a piece for each bit of the mask
        // that is the highest to differ.
        let below =
            self.range.as_ref().filter(|r| r.0 > 0).map(|r| Values::range(field, 0, r.0 - 1));
        let above = self
            .range
            .as_ref()
            .filter(|r| r.1 < field.full_mask())
            .map(|r| Values::range(field, r.1 + 1, field.full_mask()));
        let inside = self.range.clone();
        let bits = (0..field.bits()).rev().filter(|b| self.mask >> b & 1 == 1);
        let flipped = bits.map(move |b| {
            let bit = 1u128 << b;
            let above = if b >= 127 { 0 } else { self.mask & !((bit << 1) - 1) };
            let value = (self.value & above) | (!self.value & bit);
            Values { field, mask: above | bit, value, range: inside.clone() }
        });
        let flipped = flipped.filter(|p| p.first().is_some());
        below.into_iter().chain(above).chain(flipped)
    }

    /// Upper bound of the share of these values among all values.
    pub(crate) fn share(&self) -> f64 {
        let masked = (-f64::from(self.mask.count_ones())).exp2();
        match &self.range {
            None => masked,
            Some(r) => {
                let width = (r.1 - r.0) as f64 + 1.0;
                masked.min(width / (self.field.full_mask() as f64 + 1.0))
            }
        }
    }
}

/// The smallest number from `from` on that equals `value` in the bits of `mask`.
fn next_match(from: u128, mask: u128, value: u128, full: u128) -> Option<u128> {
    let differ = (from ^ value) & mask;
    if differ == 0 {
        return (from <= full).then_some(from);
    }
    let top = 127 - differ.leading_zeros();
    let below = |bit: u32| (1u128 << bit) - 1;
    if value >> top & 1 == 1 {
        return Some((from & !below(top)) | (1 << top) | (value & below(top)));
    }
    // The number has to grow in a bit above that is free and still 0.
    let above = if top == 127 { 0 } else { !below(top + 1) };
    let free = !mask & !from & full & above;
    let grow = (free != 0).then(|| free.trailing_zeros())?;
    Some((from & !below(grow)) | (1 << grow) | (value & below(grow)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four bits are few enough to try every value.
    const F: Field = Field::IpVersion;

    fn values() -> impl Strategy<Value = Values> {
        (0..16u128, 0..16u128, 0..16u128, 0..16u128).prop_map(|(mask, value, lo, hi)| {
            let range = Values::range(F, lo.min(hi), lo.max(hi));
            Values::masked(F, mask, value).and(&range).unwrap_or(Values::masked(F, mask, value))
        })
    }

    fn members(v: &Values) -> Vec<u128> {
        (0..16).filter(|x| v.contains(*x)).collect()
    }

    proptest! {
        #[test]
        fn operations_agree_with_enumeration(a in values(), b in values()) {
            let (in_a, in_b) = (members(&a), members(&b));
            let both: Vec<u128> = in_a.iter().copied().filter(|x| in_b.contains(x)).collect();
            let and = a.and(&b).map_or(Vec::new(), |v| members(&v));
            prop_assert_eq!(&and, &both);
            prop_assert_eq!(a.within(&b), both.len() == in_a.len());
            prop_assert_eq!(a.first(), in_a.first().copied());
            for from in 0..16 {
                prop_assert_eq!(a.next(from), in_a.iter().copied().find(|x| *x >= from));
            }
            let mut rest: Vec<u128> = a.complement().flat_map(|v| members(&v)).collect();
            rest.sort_unstable();
            prop_assert_eq!(rest, (0..16).filter(|x| !in_a.contains(x)).collect::<Vec<_>>());
            prop_assert!(a.share() * 16.0 + 1e-9 >= in_a.len() as f64);
        }

        #[test]
        fn domains_agree_with_enumeration(a in values(), b in values()) {
            static LIST: [u128; 3] = [3, 4, 9];
            let (in_a, in_b) = (members(&a), members(&b));
            for (domain, of) in [(Domain::OneOf(&LIST), true), (Domain::AllBut(&LIST), false)] {
                let inside: Vec<u128> = in_a.iter().copied().filter(|x| LIST.contains(x) == of).collect();
                prop_assert_eq!(a.meets(domain), !inside.is_empty());
                prop_assert_eq!(a.within_given(&b, domain), inside.iter().all(|x| in_b.contains(x)));
            }
        }
    }
}
