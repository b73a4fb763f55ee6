//! The order in which the gradients of a node should arrive.
//!
//! In eager mode gradients arrive from the last operation to the first, so those of the last layer come first. Consumers (buckets that are
//! sent, optimizers that step within backward) rely on that. A node returns all of its gradients at once, and torch's engine queues ready
//! nodes in the order of the node's inputs. That queue is a binary heap in which all leaves compare equal, and the heap determines the
//! resulting order. So the inputs are permuted such that the order comes out right.

use std::collections::HashMap;

use crate::plan::{Plan, Reg, Step};

/// Returns the step that completes each result of a plan.
pub(crate) fn completed(plan: &Plan) -> Vec<usize> {
    let mut root: HashMap<Reg, Reg> = HashMap::new();
    let mut last: HashMap<Reg, usize> = HashMap::new();
    let root_of = |root: &HashMap<Reg, Reg>, reg: Reg| root.get(&reg).copied().unwrap_or(reg);
    for (at, step) in plan.steps.iter().enumerate() {
        let mut written = |regs: &[Reg]| regs.iter().for_each(|reg| _ = last.insert(root_of(&root, *reg), at));
        match step {
            Step::Launch { kernel, args, .. } => {
                let count = plan.kernels.get(*kernel).map_or(0, |kernel| kernel.written).min(args.len());
                written(&args[args.len() - count..]);
            }
            Step::Extern { outs, results, .. } => {
                written(outs);
                written(results);
            }
            Step::View { dst, src, .. } => {
                let known = root_of(&root, *src);
                root.insert(*dst, known);
            }
            Step::Buffer { .. } | Step::OutputBuffer { .. } | Step::CheckRange { .. } | Step::Commit => {}
        }
    }
    plan.results.iter().map(|reg| last.get(&root_of(&root, *reg)).copied().unwrap_or_default()).collect()
}

/// Permutes `count` inputs so that they leave the engine's queue in order: the input at place `i` is number `placed[i]`.
///
/// The queue is a `std::priority_queue`. An element that compares equal stays where it is inserted. The first element is removed, the hole
/// moves down along the right children, and the last element fills it (`std::__adjust_heap` of libstdc++). With another library the order
/// may differ, which affects nothing else.
pub(crate) fn placed(count: usize) -> Vec<usize> {
    let mut heap: Vec<usize> = (0..count).collect();
    let mut placed = vec![0; count];
    for number in 0..count {
        let Some(&first) = heap.first() else { break };
        placed[first] = number;
        if let Some(last) = heap.pop()
            && !heap.is_empty()
        {
            sink(&mut heap, last);
        }
    }
    placed
}

/// Fills the hole at the top with children, and puts `value` where the hole ends up.
fn sink(heap: &mut [usize], value: usize) {
    let (length, mut hole) = (heap.len(), 0);
    while 2 * hole + 2 < length {
        heap[hole] = heap[2 * hole + 2];
        hole = 2 * hole + 2;
    }
    if 2 * hole + 1 < length {
        heap[hole] = heap[2 * hole + 1];
        hole = 2 * hole + 1;
    }
    heap[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_come_out_as_they_were_meant_to() {
        // Inserted by number, the engine would serve them as 0, 2, 1, 3.
        assert_eq!(placed(4), [0, 2, 1, 3]);
        for count in 0..40 {
            let mut all = placed(count);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }
}
