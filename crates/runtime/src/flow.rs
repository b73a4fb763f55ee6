//! Which inputs each result of a plan depends on.
//!
//! A gradient that depends on no tangent that is there is no gradient. Seen from the plan, all that a kernel writes depends on
//! all that it reads, so this may say too much, never too little.

use std::collections::HashMap;

use crate::plan::{Plan, Reg, Step};

/// The inputs that each result depends on, in order.
#[must_use]
pub fn depends(plan: &Plan) -> Vec<Vec<usize>> {
    let mut flow = Flow { root: HashMap::new(), inputs: (0..plan.inputs.len()).map(|input| (input, vec![input])).collect() };
    for step in &plan.steps {
        match step {
            Step::View { dst, src, .. } => {
                let root = flow.root(*src);
                flow.root.insert(*dst, root);
            }
            Step::Launch { kernel, args, .. } => {
                let written = plan.kernels.get(*kernel).map_or(0, |kernel| kernel.written).min(args.len());
                let (read, written) = args.split_at(args.len() - written);
                flow.pass_on(read, written);
            }
            Step::Extern { operands, outs, results, .. } => {
                flow.pass_on(operands, outs);
                flow.pass_on(operands, results);
            }
            Step::Buffer { .. } | Step::OutputBuffer { .. } | Step::CheckRange { .. } | Step::Commit => {}
        }
    }
    plan.results.iter().map(|result| flow.of(*result)).collect()
}

struct Flow {
    /// The register whose memory a view shows.
    root: HashMap<Reg, Reg>,
    /// What the memory of a register depends on.
    inputs: HashMap<Reg, Vec<usize>>,
}

impl Flow {
    fn root(&self, reg: Reg) -> Reg {
        self.root.get(&reg).copied().unwrap_or(reg)
    }

    fn of(&self, reg: Reg) -> Vec<usize> {
        self.inputs.get(&self.root(reg)).cloned().unwrap_or_default()
    }

    /// What is written depends on what is read. It may be a part of the memory, so that this comes to what was written before.
    fn pass_on(&mut self, read: &[Reg], written: &[Reg]) {
        let all: Vec<usize> = read.iter().flat_map(|reg| self.of(*reg)).collect();
        for reg in written {
            let own = self.inputs.entry(self.root(*reg)).or_default();
            own.extend(&all);
            own.sort_unstable();
            own.dedup();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, InputSpec, KernelSpec, Layout};

    #[test]
    fn what_is_written_depends_on_what_is_read() {
        let layout = || Layout::contiguous(DType::F32, &[4]);
        let input = || InputSpec { layout: layout(), storage: None, mutated: false, version_bumps: 0 };
        let plan = Plan {
            inputs: vec![input(), input(), input()],
            kernels: vec![KernelSpec { name: "k".into(), arguments: 2, written: 1, sizes: 0 }],
            steps: vec![
                Step::Buffer { dst: 3, byte_offset: 0, layout: layout() },
                Step::View { dst: 4, src: 3, layout: layout() },
                Step::Launch { kernel: 0, args: vec![1, 4], sizes: vec![] },
                Step::OutputBuffer { dst: 5, layout: layout() },
                Step::Launch { kernel: 0, args: vec![3, 5], sizes: vec![] },
                Step::Extern { call: 0, operands: vec![0, 3], outs: vec![], results: vec![6] },
                Step::OutputBuffer { dst: 7, layout: layout() },
            ],
            results: vec![5, 6, 7],
            ..Plan::default()
        };
        assert_eq!(depends(&plan), [vec![1], vec![0, 1], vec![]]);
    }
}
