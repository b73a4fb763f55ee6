//! The alignment of kernel arguments, over all launches of all plans.
//!
//! A GPU kernel moves several elements at once if their address allows it. Equal kernels are shared, regardless of the position of their
//! operands in a buffer. An operand that begins in the middle of memory, as a piece of a concatenation does, may have a smaller alignment
//! than one at the start: torch's allocators, and the plan's buffers, begin at multiples of 64 bytes. An input whose alignment differs from
//! the one at tracing is detected when the graph is called.

use std::collections::HashMap;

use dynamlir_dialect::{ir::Op, ops, program::kernels};
use dynamlir_runtime::{Layout, Plan, Reg, Step};

/// No generated code needs more.
const MOST: i64 = 16;

/// Per kernel and argument, the alignment that all addresses have, in bytes.
pub fn alignments(plan: &Plan) -> Vec<Vec<i64>> {
    let mut found: Vec<Vec<i64>> = plan.kernels.iter().map(|kernel| vec![MOST; kernel.arguments]).collect();
    // For each register, the bytes from the start of memory to the base of its offset, and from that base to element 0.
    let mut places: HashMap<Reg, (i64, i64)> = HashMap::new();
    let first = Layout::first_byte;
    for (reg, input) in plan.inputs.iter().enumerate() {
        places.insert(reg, (0, first(&input.layout)));
    }
    for step in &plan.steps {
        match step {
            Step::Buffer { dst, byte_offset, layout } => {
                places.insert(*dst, (*byte_offset as i64, first(layout)));
            }
            // Element 0 lies at the start of its memory.
            Step::OutputBuffer { dst, layout } => {
                places.insert(*dst, (-first(layout), first(layout)));
            }
            Step::Extern { call, results, .. } => {
                let layouts = &plan.externs[*call].result_layouts;
                for (&reg, layout) in results.iter().zip(layouts) {
                    let offset = layout.as_ref().map_or(0, first);
                    places.insert(reg, (-offset, offset));
                }
            }
            Step::View { dst, src, layout } => {
                let base = places.get(src).map_or(1, |(base, _)| *base);
                places.insert(*dst, (base, first(layout)));
            }
            Step::Launch { kernel, args, .. } => {
                for (known, reg) in found[*kernel].iter_mut().zip(args) {
                    let address = places.get(reg).map_or(1, |(base, offset)| base + offset);
                    *known = (*known).min(1 << address.trailing_zeros().min(MOST.trailing_zeros()));
                }
            }
            Step::CheckRange { .. } | Step::Commit => {}
        }
    }
    found
}

/// Records the alignments on the kernels of a module, for the GPU's schedule: the smallest of all plans.
pub fn note<'a>(module: Op, plans: impl IntoIterator<Item = &'a Plan>) {
    let mut worst: HashMap<&str, Vec<i64>> = HashMap::new();
    for plan in plans {
        for (kernel, known) in plan.kernels.iter().zip(alignments(plan)) {
            let least = worst.entry(&kernel.name).or_insert_with(|| known.clone());
            least.iter_mut().zip(known).for_each(|(least, known)| *least = known.min(*least));
        }
    }
    for function in kernels(module) {
        if let Some(known) = function.symbol().and_then(|name| worst.get(name.as_str())) {
            ops::ALIGNMENTS.set(function, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use dynamlir_runtime::{DType, InputSpec, KernelSpec};

    use super::*;

    #[test]
    fn the_worst_of_all_launches_counts() {
        let floats = |offset| Layout::contiguous(DType::F32, &[8]).with_offset(offset);
        let input = |offset| InputSpec { layout: floats(offset), storage: None, mutated: false, version_bumps: 0 };
        let launch = |args: &[Reg]| Step::Launch { kernel: 0, args: args.to_vec(), sizes: vec![] };
        let plan = Plan {
            inputs: vec![input(0), input(6)],
            workspace_bytes: 256,
            steps: vec![
                Step::Buffer { dst: 2, byte_offset: 64, layout: floats(0) },
                launch(&[0, 2]),
                // Three floats into the buffer.
                Step::View { dst: 3, src: 2, layout: floats(3) },
                launch(&[1, 3]),
                Step::OutputBuffer { dst: 4, layout: floats(0) },
                launch(&[0, 4]),
            ],
            kernels: vec![KernelSpec { name: "k".into(), arguments: 2, written: 1, sizes: 0 }],
            ..Plan::default()
        };
        assert_eq!(alignments(&plan), [[8, 4]]);
    }
}
