//! Layers: an order without cycles, and how far down each item stands.

use std::collections::VecDeque;

/// The position of each of `n` items in an order that few of `edges` go against, none if they have
/// no cycle (the greedy heuristic of Eades, Lin and Smyth). Edges from an item to itself have no
/// say.
pub(super) fn without_cycles(n: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut state = Greedy::new(n, edges);
    let (mut front, mut back) = (Vec::with_capacity(n), Vec::new());
    while front.len() + back.len() < n {
        if let Some(sink) = state.sinks.pop_front() {
            if state.take(sink) {
                back.push(sink);
            }
        } else if let Some(source) = state.sources.pop_front().or_else(|| state.most_outward())
            && state.take(source)
        {
            front.push(source);
        }
    }
    let mut position = vec![0; n];
    for (place, item) in front.into_iter().chain(back.into_iter().rev()).enumerate() {
        position[item] = place;
    }
    position
}

struct Greedy {
    into: Vec<Vec<usize>>,
    out: Vec<Vec<usize>>,
    ins: Vec<usize>,
    outs: Vec<usize>,
    taken: Vec<bool>,
    sinks: VecDeque<usize>,
    sources: VecDeque<usize>,
}

impl Greedy {
    fn new(n: usize, edges: &[(usize, usize)]) -> Greedy {
        let (mut into, mut out) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for (from, to) in edges.iter().filter(|(from, to)| from != to) {
            out[*from].push(*to);
            into[*to].push(*from);
        }
        let count = |lists: &[Vec<usize>]| lists.iter().map(Vec::len).collect::<Vec<_>>();
        let (ins, outs) = (count(&into), count(&out));
        let sinks = (0..n).filter(|i| outs[*i] == 0).collect();
        let sources = (0..n).filter(|i| ins[*i] == 0).collect();
        Greedy { into, out, ins, outs, taken: vec![false; n], sinks, sources }
    }

    /// Takes the item away; false if it was taken before.
    fn take(&mut self, item: usize) -> bool {
        if std::mem::replace(&mut self.taken[item], true) {
            return false;
        }
        for next in &self.out[item] {
            self.ins[*next] -= 1;
            if self.ins[*next] == 0 && !self.taken[*next] {
                self.sources.push_back(*next);
            }
        }
        for previous in &self.into[item] {
            self.outs[*previous] -= 1;
            if self.outs[*previous] == 0 && !self.taken[*previous] {
                self.sinks.push_back(*previous);
            }
        }
        true
    }

    fn most_outward(&self) -> Option<usize> {
        let left = (0..self.taken.len()).filter(|i| !self.taken[*i]);
        left.max_by_key(|i| (self.outs[*i] as i64 - self.ins[*i] as i64, std::cmp::Reverse(*i)))
    }
}

/// The layer of each of `n` items, from 0: below everything that leads to it, and no further from
/// where it leads than need be. `edges` have no cycle. `entered` items have an edge from above all
/// layers, `left` items one to below them.
pub(super) fn layers(
    n: usize,
    edges: &[(usize, usize)],
    entered: &[usize],
    left: &[usize],
) -> Vec<usize> {
    let position = without_cycles(n, edges);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by_key(|i| position[*i]);
    let (mut into, mut out) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for (from, to) in edges {
        out[*from].push(*to);
        into[*to].push(*from);
    }
    let mut layer = vec![0; n];
    for item in &order {
        layer[*item] = into[*item].iter().map(|i| layer[*i] + 1).max().unwrap_or(0);
    }
    let bottom = layer.iter().max().map_or(0, |deepest| deepest + 1);
    let mut pull = vec![0i64; n];
    entered.iter().for_each(|i| pull[*i] -= 1);
    left.iter().for_each(|i| pull[*i] += 1);
    for item in order.iter().rev() {
        let down = pull[*item] + out[*item].len() as i64 - into[*item].len() as i64;
        let lowest = out[*item].iter().map(|i| layer[*i]).min();
        if let (true, Some(next)) = (down > 0, lowest.or((pull[*item] > 0).then_some(bottom))) {
            layer[*item] = next - 1;
        }
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_cycle_every_edge_goes_forward() {
        let edges = [(3, 1), (1, 0), (3, 0), (2, 0), (4, 2), (4, 3)];
        let position = without_cycles(5, &edges);
        assert!(edges.iter().all(|(a, b)| position[*a] < position[*b]), "{position:?}");
    }

    #[test]
    fn of_a_cycle_one_edge_goes_back() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 2), (2, 3)];
        let position = without_cycles(4, &edges);
        let back = edges.iter().filter(|(a, b)| position[*a] > position[*b]).count();
        assert_eq!(back, 1, "{position:?}");
    }

    #[test]
    fn items_stand_as_near_as_may_be_to_where_they_lead() {
        // 0 -> 1 -> 2, and 3 -> 2 alone.
        assert_eq!(layers(4, &[(0, 1), (1, 2), (3, 2)], &[], &[]), [0, 1, 2, 1]);
        // Nodes that are entered from above stay there; nodes that leave go down.
        assert_eq!(layers(4, &[(0, 1), (1, 2), (3, 2)], &[3], &[]), [0, 1, 2, 0]);
        assert_eq!(layers(3, &[(0, 1)], &[], &[2]), [0, 1, 1]);
    }
}
