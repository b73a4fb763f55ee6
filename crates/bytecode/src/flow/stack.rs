//! The depth of the stack before each instruction.

use thiserror::Error;

use super::{EdgeKind, Flow};
use crate::{Code, Opcode, stack_effect};

/// The stack depths are inconsistent: no compiler produces such code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StackError {
    /// An instruction pops more values than the stack has.
    #[error("the stack underflows at unit {0}")]
    Underflow(u32),
    /// Two paths reach an instruction with stacks of different depths.
    #[error("unit {unit} is reached with {one} and with {other} values on the stack")]
    Unequal {
        /// The instruction.
        unit: u32,
        /// The depth along one path.
        one: u32,
        /// The depth along another.
        other: u32,
    },
}

/// Depths of the stack, by instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackDepths {
    /// The depth before each instruction; `None` if it is unreachable.
    pub before: Vec<Option<u32>>,
    /// The maximum depth of the stack: `co_stacksize`, or a little less.
    pub max: u32,
}

impl StackDepths {
    /// Computes the depths by following every path once.
    pub fn of(code: &Code, flow: &Flow) -> Result<Self, StackError> {
        let mut depths = Self { before: vec![None; code.instructions.len()], max: 0 };
        let mut open = Vec::new();
        if !flow.blocks.is_empty() {
            depths.enter(code, flow, 0, 0, &mut open)?;
        }
        while let Some(block) = open.pop() {
            depths.block(code, flow, block, &mut open)?;
        }
        Ok(depths)
    }

    /// Records the depth at a block's start, and queues the block if it is new.
    fn enter(&mut self, code: &Code, flow: &Flow, block: usize, depth: u32, open: &mut Vec<usize>) -> Result<(), StackError> {
        let first = flow.blocks[block].first;
        self.max = self.max.max(depth);
        match self.before[first] {
            None => {
                self.before[first] = Some(depth);
                open.push(block);
                Ok(())
            }
            Some(known) if known == depth => Ok(()),
            Some(known) => Err(StackError::Unequal { unit: code.instructions[first].unit, one: known, other: depth }),
        }
    }

    fn block(&mut self, code: &Code, flow: &Flow, block: usize, open: &mut Vec<usize>) -> Result<(), StackError> {
        let Some(mut depth) = self.before[flow.blocks[block].first] else { return Ok(()) };
        for at in flow.blocks[block].first..flow.blocks[block].end {
            let instruction = &code.instructions[at];
            self.before[at] = Some(depth);
            let after = |jump| {
                let effect = match instruction.opcode {
                    // The first `send` pushes a value, which a POP_TOP removes.
                    Opcode::ReturnGenerator => 1,
                    opcode => stack_effect(code.version, opcode, instruction.arg, jump).unwrap_or(0),
                };
                depth.checked_add_signed(effect).ok_or(StackError::Underflow(instruction.unit))
            };
            if at + 1 == flow.blocks[block].end
                && let Some(edge) = flow.blocks[block].successors.iter().find(|edge| edge.kind == EdgeKind::Jump)
            {
                self.enter(code, flow, edge.to, after(true)?, open)?;
            }
            depth = after(false)?;
            self.max = self.max.max(depth);
        }
        for edge in &flow.blocks[block].successors {
            match (edge.kind, flow.blocks[block].handler) {
                (EdgeKind::Next, _) => self.enter(code, flow, edge.to, depth, open)?,
                // The stack is truncated; then the offset, if requested, and the exception are pushed.
                (EdgeKind::Exception, Some(handler)) => {
                    self.enter(code, flow, edge.to, handler.depth.saturating_add(1 + u32::from(handler.lasti)), open)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
