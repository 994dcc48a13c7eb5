#![doc = include_str!("README.md")]

pub(crate) mod fields;
mod index;
#[cfg(test)]
mod tests;

use weever_block::{
    Block, BlockType, Build, BuildError, Burst, Cx, MARKS, Mask, Ports, TABLE, bits, number_of,
};
use weever_graph::{Field, NodeKind, TableSpec};

use weever_net::random::Key;

use crate::host::Secret;
use fields::Extract;
use index::{Index, Verdict};

/// The block type. It runs every table node that has no type of its own, with any ports.
pub static TABLE_TYPE: BlockType = BlockType {
    effects: MARKS,
    counters: &["hits", "misses"],
    ..BlockType::new(
        TABLE,
        "Matches packets against a table's entries; a hit writes the entry's id to the metadata \
         and leaves by the entry's port.",
        &[],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let NodeKind::Table(spec) = &build.node.kind else {
        let what = "a table's value (the node is no table)";
        return Err(BuildError::Environment { node: build.node.name.clone(), what });
    };
    let key = build.env.get_or_default::<Secret>().key("tables");
    if spec.fields == [Field::Ip4Dst, Field::L4Dst] {
        return Ok(Box::new(Table::<_, 1>::new(fields::local_socket, spec, key)));
    }
    let plan = fields::Plan::new(&spec.fields);
    if plan.words() > fields::MAX_WORDS || spec.fields.len() > 32 {
        return Err(too_wide(build));
    }
    // The widths of one to four words cover a 5-tuple; the last holds every field there is.
    Ok(match plan.words() {
        0 | 1 => Box::new(Table::<_, 1>::new(plan, spec, key)),
        2 => Box::new(Table::<_, 2>::new(plan, spec, key)),
        3 | 4 => Box::new(Table::<_, 4>::new(plan, spec, key)),
        _ => Box::new(Table::<_, { fields::MAX_WORDS }>::new(plan, spec, key)),
    })
}

fn too_wide(build: &Build<'_>) -> BuildError {
    let what = "room for a table's key (it names fields more than once)";
    BuildError::Environment { node: build.node.name.clone(), what }
}

/// Its counters.
const HITS: usize = 0;
const MISSES: usize = 1;

/// A table over keys of `W` words.
struct Table<E, const W: usize> {
    extract: E,
    index: Index<W>,
}

impl<E: Extract<W>, const W: usize> Table<E, W> {
    fn new(extract: E, spec: &TableSpec, key: Key) -> Table<E, W> {
        Table { extract, index: Index::new(spec, key) }
    }
}

impl<E: Extract<W>, const W: usize> Block for Table<E, W> {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        // One alone has no neighbours, and counts as one or the other.
        if input.is_power_of_two() {
            let Some(packet) = burst.get_mut(input.trailing_zeros() as usize) else {
                return cx.count(MISSES, 1);
            };
            let Verdict { entry, port } = self.index.find(&self.extract.key(packet));
            let counter = if entry.is_some() { HITS } else { MISSES };
            entry.into_iter().for_each(|entry| packet.meta_mut().entry = entry);
            ports.enable(port as usize, input);
            return cx.count(counter, 1);
        }
        let mut hits = 0;
        let mut last: Option<(fields::Key<W>, Verdict)> = None;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let key = self.extract.key(packet);
            // Neighbours in a burst are often of one flow.
            let verdict = match last {
                Some((of, verdict)) if of == key => verdict,
                _ => self.index.find(&key),
            };
            last = Some((key, verdict));
            if let Some(entry) = verdict.entry {
                packet.meta_mut().entry = entry;
                hits += 1;
            }
            ports.enable(verdict.port as usize, 1 << task);
        }
        cx.count(HITS, hits);
        cx.count(MISSES, u64::from(number_of(input)) - hits);
    }
}
