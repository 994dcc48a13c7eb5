//! Arithmetic on sequence numbers.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number. RFC 9293 §3.4: "all arithmetic dealing with sequence numbers must be
/// performed modulo 2^32".
///
/// Comparisons hold for numbers that are less than 2^31 apart, which windows guarantee. They are
/// methods and not `Ord`, since an order on a circle is not transitive.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// How far this one is behind `other`; negative if it stands before it.
    #[inline]
    pub const fn distance(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether this one stands before `other`.
    #[inline]
    pub const fn lt(self, other: Seq) -> bool {
        self.distance(other) < 0
    }

    /// Whether this one stands before `other` or is the same.
    #[inline]
    pub const fn le(self, other: Seq) -> bool {
        self.distance(other) <= 0
    }

    /// Whether this one stands behind `other`.
    #[inline]
    pub const fn gt(self, other: Seq) -> bool {
        self.distance(other) > 0
    }

    /// Whether this one stands behind `other` or is the same.
    #[inline]
    pub const fn ge(self, other: Seq) -> bool {
        self.distance(other) >= 0
    }

    /// The later of the two.
    #[inline]
    pub const fn max(self, other: Seq) -> Seq {
        if self.ge(other) { self } else { other }
    }

    /// The earlier of the two.
    #[inline]
    pub const fn min(self, other: Seq) -> Seq {
        if self.le(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn add(self, octets: u32) -> Seq {
        Seq(self.0.wrapping_add(octets))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, octets: u32) {
        *self = *self + octets;
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn sub(self, octets: u32) -> Seq {
        Seq(self.0.wrapping_sub(octets))
    }
}

/// The octets from `other` up to this one, which stands behind it or is the same.
impl Sub<Seq> for Seq {
    type Output = u32;

    #[inline]
    fn sub(self, other: Seq) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_holds_across_the_end_of_the_numbers(start: u32, step in 1u32..(1 << 31)) {
            let (a, b) = (Seq(start), Seq(start) + step);
            prop_assert!(a.lt(b) && a.le(b) && b.gt(a) && b.ge(a) && !b.le(a) && !a.ge(b));
            prop_assert!(a.le(a) && a.ge(a) && !a.lt(a) && !a.gt(a));
            prop_assert_eq!((b - a, b - step), (step, a));
            prop_assert_eq!((a.max(b), a.min(b), b.max(a), b.min(a)), (b, a, b, a));
        }
    }
}
