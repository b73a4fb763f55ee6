//! The peak of live bytes in a plan's workspace.
//!
//! It is computed from the finished plan, regardless of how that was created: a buffer lives from the first step that touches its memory,
//! directly or through a view, to the last. Reports compare the packing of the workspace with the peak over all steps.

use std::collections::HashMap;

use dynamlir_runtime::{Layout, Plan, Reg, Step};

/// Offsets of buffers are multiples of this.
const ALIGNMENT: usize = 64;

/// Bytes of a buffer, and the first and last step of its lifetime.
struct Life {
    bytes: usize,
    first: usize,
    last: usize,
}

/// The maximum over all steps of the live bytes in the workspace.
pub fn live_bytes(plan: &Plan) -> usize {
    let lives = lives(plan);
    // The peak is at the start of some buffer's lifetime.
    let at = |step: usize| lives.iter().filter(|life| life.first <= step && step <= life.last).map(|life| life.bytes).sum();
    lives.iter().map(|life| at(life.first)).max().unwrap_or(0)
}

/// The lifetimes of all buffers that are used.
fn lives(plan: &Plan) -> Vec<Life> {
    let mut sizes = Vec::new();
    let mut lives: HashMap<usize, Life> = HashMap::new();
    let mut buffer_of: HashMap<Reg, usize> = HashMap::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let used: Vec<Reg> = match step {
            Step::Buffer { dst, layout, .. } => {
                buffer_of.insert(*dst, sizes.len());
                sizes.push(bytes(layout));
                continue;
            }
            Step::View { dst, src, .. } => {
                if let Some(&buffer) = buffer_of.get(src) {
                    buffer_of.insert(*dst, buffer);
                }
                continue;
            }
            Step::Launch { args, .. } => args.clone(),
            Step::Extern { operands, outs, .. } => operands.iter().chain(outs).copied().collect(),
            Step::CheckRange { src, .. } => vec![*src],
            Step::OutputBuffer { .. } | Step::Commit => continue,
        };
        for &buffer in used.iter().filter_map(|reg| buffer_of.get(reg)) {
            lives.entry(buffer).or_insert(Life { bytes: sizes[buffer], first: at, last: at }).last = at;
        }
    }
    lives.into_values().collect()
}

/// The bytes of the workspace that a buffer of this layout occupies.
fn bytes(layout: &Layout) -> usize {
    let (low, high) = layout.span().unwrap_or((0, 0));
    usize::try_from(high - low).unwrap_or(0).max(1).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use dynamlir_torch_abi::DType;

    use super::*;

    fn buffer(dst: Reg, floats: i64) -> Step {
        Step::Buffer { dst, byte_offset: 0, layout: Layout::contiguous(DType::F32, &[floats]) }
    }

    fn launch(args: &[Reg]) -> Step {
        Step::Launch { kernel: 0, args: args.to_vec(), sizes: vec![] }
    }

    #[test]
    fn what_lives_at_different_steps_does_not_add_up() {
        let steps = vec![buffer(1, 16), launch(&[0, 1]), buffer(2, 16), launch(&[1, 2]), buffer(3, 16), launch(&[2, 3]), launch(&[3, 9])];
        assert_eq!(live_bytes(&Plan { steps, ..Plan::default() }), 2 * 64);
    }

    #[test]
    fn a_view_keeps_its_buffer_alive() {
        let view = Step::View { dst: 2, src: 1, layout: Layout::contiguous(DType::F32, &[4]) };
        let steps =
            vec![buffer(1, 16), launch(&[0, 1]), view, buffer(3, 16), launch(&[0, 3]), buffer(4, 16), launch(&[3, 4]), launch(&[2, 9])];
        assert_eq!(live_bytes(&Plan { steps, ..Plan::default() }), 3 * 64);
    }

    #[test]
    fn sizes_are_rounded_up_and_the_unused_is_not_counted() {
        let steps = vec![buffer(1, 17), buffer(2, 1000), launch(&[0, 1])];
        assert_eq!(live_bytes(&Plan { steps, ..Plan::default() }), 128);
        assert_eq!(live_bytes(&Plan::default()), 0);
    }
}
