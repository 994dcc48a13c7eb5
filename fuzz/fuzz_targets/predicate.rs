//! Any text as a predicate: it is refused with a place inside the text, or it means the same after
//! it has been shown and read again.
#![no_main]

use std::hash::{DefaultHasher, Hash, Hasher};

use libfuzzer_sys::fuzz_target;
use weever_graph::{Field, OpenTest, Predicate};
use weever_unicorn::predicate::{PredicateText, parse};

fuzz_target!(|text: &str| {
    let predicate = match parse(text) {
        Ok(predicate) => predicate,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let shown = PredicateText(&predicate).to_string();
    let again = parse(&shown).unwrap_or_else(|e| panic!("{text:?} shown as {shown:?}: {e}"));
    for packet in 0..64 {
        assert_eq!(holds(&predicate, packet), holds(&again, packet), "{text:?} as {shown:?}");
    }
});

/// Whether the predicate holds of a packet made up from a number. Half of the values are small, so
/// that comparisons are not all false.
fn holds(predicate: &Predicate, packet: u64) -> bool {
    let field = |field: Field| {
        let value = u128::from(mix(&(packet, field)));
        let small = if value & 2 == 0 { value >> 2 & 0xff } else { value << 64 | value };
        (value & 1 == 0).then_some(small & field.full_mask())
    };
    let open = |test: OpenTest<'_>| match test {
        OpenTest::Label { label, value } => value == "1" && mix(&(packet, label)) & 1 == 0,
        OpenTest::Member { value, set, .. } => mix(&(packet, value, set)) & 1 == 0,
    };
    predicate.eval(&field, &open)
}

fn mix(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
