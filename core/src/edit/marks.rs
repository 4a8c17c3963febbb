//! Many positions of one text, moved by an edit all at once.
//!
//! They go where [`map`](super::map) with [`Bias::Left`](super::Bias::Left) takes each of them, but
//! an edit costs the logarithm of their number, and a clone shares all of them.
//!
//! 1. The map keeps order, so the positions stay sorted for ever: a position is found by its rank,
//!    and ranks never change.
//! 2. Kept are the gaps between neighbours, in the leaves of a tree whose nodes have the sums. A
//!    position is the sum of the gaps up to its rank.
//! 3. Inserted text widens one gap. Deleted text is cut out of the gaps that it covers, and a node
//!    that it covers whole becomes `Node::Flat`, whatever was below it.
//! 4. The shape of the tree follows from the number of positions alone.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Splice;

/// Gaps in one leaf.
const LEAF_COUNT: usize = 32;
/// Children of one inner node.
const CHILD_COUNT: usize = 16;

/// Positions in order, each known by its rank: how many stand before it.
#[derive(Clone, Debug)]
pub struct Marks {
    root: Child,
    /// Levels of inner nodes above the leaves.
    height: u32,
    count: usize,
}

/// A part of the tree and how far its last position lies behind the position before its first.
#[derive(Clone, Debug)]
struct Child {
    sum: u64,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    /// All its gaps are 0.
    Flat,
    Leaf(Arc<[u64; LEAF_COUNT]>),
    Inner(Arc<[Child; CHILD_COUNT]>),
}

const FLAT: Child = Child {
    sum: 0,
    node: Node::Flat,
};

/// How many positions a child of a node of this height has room for.
const fn room(height: u32) -> usize {
    LEAF_COUNT * CHILD_COUNT.pow(height - 1)
}

impl Marks {
    /// Returns marks at these positions, which are in order.
    ///
    /// # Panics
    /// When they are not in order.
    #[must_use]
    pub fn new(positions: &[u64]) -> Self {
        let mut last = 0;
        let mut level: Vec<Child> = positions
            .chunks(LEAF_COUNT)
            .map(|part| leaf(&mut last, part))
            .collect();
        let mut height = 0;
        while level.len() > 1 {
            level = level.chunks(CHILD_COUNT).map(inner).collect();
            height += 1;
        }
        Self {
            root: level.pop().unwrap_or(FLAT),
            height,
            count: positions.len(),
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the position of a rank; the last one for ranks behind it, 0 when there is none.
    #[must_use]
    pub fn at(&self, rank: usize) -> u64 {
        let (mut child, mut rank, mut before) = (&self.root, rank, 0);
        if rank >= self.count {
            return child.sum;
        }
        for height in (1..=self.height).rev() {
            let Node::Inner(children) = &child.node else {
                return before;
            };
            let index = rank / room(height);
            before += children[..index].iter().map(|child| child.sum).sum::<u64>();
            (child, rank) = (&children[index], rank % room(height));
        }
        match &child.node {
            Node::Leaf(gaps) => before + gaps[..=rank].iter().sum::<u64>(),
            Node::Flat | Node::Inner(_) => before,
        }
    }

    /// Returns the first rank whose position lies behind `q`; [`Self::count`] if none does.
    #[must_use]
    pub fn rank_behind(&self, q: u64) -> usize {
        let (mut child, mut rank, mut left) = (&self.root, 0, q);
        if child.sum <= q {
            return self.count;
        }
        for height in (1..=self.height).rev() {
            let Node::Inner(children) = &child.node else {
                return rank;
            };
            let index = seek(&**children, &mut left, |child| child.sum);
            child = &children[index];
            rank += index * room(height);
        }
        match &child.node {
            Node::Leaf(gaps) => rank + seek(&**gaps, &mut left, |gap| *gap),
            Node::Flat | Node::Inner(_) => rank,
        }
    }

    /// Returns all positions, in order.
    #[must_use]
    pub fn positions(&self) -> Vec<u64> {
        let mut positions = Vec::with_capacity(self.count);
        let mut last = 0;
        collect(
            &self.root,
            self.height,
            &mut last,
            self.count,
            &mut positions,
        );
        positions
    }

    /// Moves them by an edit: checked splices, in positions of the text before it.
    pub fn apply(&mut self, splices: &[Splice]) {
        // Each splice in turn, in positions of the text that the ones before it left. What one
        // moved to its start is not touched by the next, and what it passed lies behind it.
        let (mut removed, mut added) = (0, 0);
        for splice in splices {
            let at = splice.at.q0 - removed + added;
            let count = splice.count();
            if at >= self.root.sum {
                // No position is behind it, and so none behind those that follow.
                return;
            }
            if !splice.at.is_empty() {
                cut(&mut self.root, at, at + splice.at.len());
            }
            if count > 0 && at < self.root.sum {
                widen(&mut self.root, at, count);
            }
            removed += splice.at.len();
            added += count;
        }
    }
}

fn leaf(last: &mut u64, positions: &[u64]) -> Child {
    let mut gaps = [0; LEAF_COUNT];
    let mut sum = 0;
    for (gap, position) in gaps.iter_mut().zip(positions) {
        *gap = position
            .checked_sub(*last)
            .expect("the caller put the positions in order");
        sum += *gap;
        *last = *position;
    }
    let node = Node::Leaf(Arc::new(gaps));
    Child { sum, node }
}

fn inner(part: &[Child]) -> Child {
    let mut children = [FLAT; CHILD_COUNT];
    children[..part.len()].clone_from_slice(part);
    Child {
        sum: part.iter().map(|child| child.sum).sum(),
        node: Node::Inner(Arc::new(children)),
    }
}

/// Returns the first part that reaches behind `left`, and takes those before it off `left`. There
/// is one: the sum of the parts is more.
fn seek<T>(parts: &[T], left: &mut u64, sum: impl Fn(&T) -> u64) -> usize {
    for (index, part) in parts.iter().enumerate() {
        let sum = sum(part);
        if *left < sum {
            return index;
        }
        *left -= sum;
    }
    parts.len() - 1
}

/// Moves the positions behind `at` by `count`; there are some.
fn widen(child: &mut Child, at: u64, count: u64) {
    let (mut child, mut left) = (child, at);
    loop {
        child.sum += count;
        match &mut child.node {
            // Nothing in it lies behind its start.
            Node::Flat => return,
            Node::Leaf(gaps) => {
                let gaps = Arc::make_mut(gaps);
                gaps[seek(&gaps[..], &mut left, |gap| *gap)] += count;
                return;
            }
            Node::Inner(children) => {
                let children = Arc::make_mut(children);
                let index = seek(&children[..], &mut left, |child| child.sum);
                child = &mut children[index];
            }
        }
    }
}

/// Takes `from..to`, counted from the position before the child, out of its gaps. The range ends
/// behind its start.
fn cut(child: &mut Child, from: u64, to: u64) {
    let to = to.min(child.sum);
    if from >= to {
        return;
    }
    if to - from == child.sum {
        *child = FLAT;
        return;
    }
    match &mut child.node {
        Node::Flat => return,
        Node::Leaf(gaps) => {
            let mut start = 0;
            for gap in Arc::make_mut(gaps) {
                let end = start + *gap;
                *gap -= end.min(to).saturating_sub(start.max(from));
                start = end;
            }
        }
        Node::Inner(children) => {
            let mut start = 0;
            for child in Arc::make_mut(children) {
                let end = start + child.sum;
                if start < to && from < end {
                    cut(child, from.saturating_sub(start), to - start);
                }
                start = end;
            }
        }
    }
    child.sum -= to - from;
}

/// Appends the positions of a child until there are `count`.
fn collect(child: &Child, height: u32, last: &mut u64, count: usize, positions: &mut Vec<u64>) {
    match &child.node {
        Node::Flat => {
            let room = LEAF_COUNT * CHILD_COUNT.pow(height);
            let end = (positions.len() + room).min(count);
            positions.resize(end, *last);
        }
        Node::Leaf(gaps) => {
            let left = count - positions.len();
            positions.extend(gaps.iter().take(left).map(|gap| {
                *last += gap;
                *last
            }));
        }
        Node::Inner(children) => {
            for child in children.iter() {
                collect(child, height - 1, last, count, positions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bias, map};
    use super::*;
    use crate::dice::Dice;
    use crate::text::Span;

    impl Dice {
        /// Splices in order and disjoint, some of them adjacent, for a text of `len`.
        fn splices(&mut self, len: u64) -> Vec<Splice> {
            let mut ends: Vec<u64> = (0..2 * self.below(4) + 2)
                .map(|_| self.below(len + 1))
                .collect();
            ends.sort_unstable();
            if self.below(3) == 0 && ends.len() > 3 {
                ends[2] = ends[1];
            }
            let texts = ["", "x", "é漢", "longer than what it replaces"];
            ends.chunks(2)
                .map(|pair| {
                    let index = usize::try_from(self.below(4)).unwrap();
                    let q1 = if self.below(3) == 0 { pair[0] } else { pair[1] };
                    Splice::new(Span::new(pair[0], q1), texts[index])
                })
                .collect()
        }
    }

    fn check(marks: &Marks, expected: &[u64]) {
        assert_eq!(marks.positions(), expected);
        assert_eq!(marks.count(), expected.len());
        for (rank, position) in expected.iter().enumerate().step_by(7) {
            assert_eq!(marks.at(rank), *position);
            for q in [position.saturating_sub(1), *position, position + 1] {
                let behind = expected.partition_point(|position| *position <= q);
                assert_eq!(marks.rank_behind(q), behind, "{q}");
            }
        }
    }

    #[test]
    fn marks_go_where_the_slow_map_takes_each_of_them() {
        let mut dice = Dice(7);
        for count in [0, 1, 2, 31, 32, 33, 500, 513, 2000, 9000] {
            let mut len = 3 * count + 10;
            let mut slow: Vec<u64> = (0..count).map(|_| dice.below(len + 1)).collect();
            slow.sort_unstable();
            let mut marks = Marks::new(&slow);
            for _ in 0..150 {
                let splices = dice.splices(len);
                super::super::check(&splices, len).unwrap();
                let before = (marks.clone(), slow.clone());
                marks.apply(&splices);
                for position in &mut slow {
                    *position = map(&splices, *position, Bias::Left);
                }
                len = splices
                    .iter()
                    .fold(len, |len, s| len - s.at.len() + s.count());
                check(&marks, &slow);
                assert_eq!(before.0.positions(), before.1, "a clone stays as it was");
            }
        }
    }

    #[test]
    fn every_splice_of_a_small_text_moves_every_mark_as_map_does() {
        let all: Vec<u64> = (0..=4).flat_map(|q| [q, q]).collect();
        let spans = || (0..=4).flat_map(|q0| (q0..=4).map(move |q1| Span::new(q0, q1)));
        let texts = ["", "x", "yy"];
        for (first, second) in spans().flat_map(|one| spans().map(move |two| (one, two))) {
            for (one, two) in texts
                .iter()
                .flat_map(|one| texts.map(move |two| (one, two)))
            {
                let splices = [Splice::new(first, *one), Splice::new(second, two)];
                if super::super::check(&splices, 4).is_err() {
                    continue;
                }
                let mut marks = Marks::new(&all);
                marks.apply(&splices);
                let slow: Vec<u64> = all.iter().map(|q| map(&splices, *q, Bias::Left)).collect();
                assert_eq!(marks.positions(), slow, "{splices:?}");
            }
        }
    }

    #[test]
    fn a_deletion_that_swallows_marks_lets_go_of_their_nodes() {
        let positions: Vec<u64> = (0..100_000).collect();
        let mut marks = Marks::new(&positions);
        marks.apply(&[Splice::new(Span::new(0, 99_999), "ab")]);
        assert!(matches!(marks.root.node, Node::Flat));
        assert_eq!(marks.at(50_000), 0);
        marks.apply(&[Splice::new(Span::at(0), "cd")]);
        assert_eq!(marks.positions(), alloc::vec![0; 100_000]);
    }
}
