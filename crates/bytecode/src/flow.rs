//! The control-flow graph of a code object: basic blocks, and edges for jumps and for exceptions.

use crate::{Code, Handler, Instruction, Opcode};

mod dominators;
mod stack;

pub use dominators::Dominators;
pub use stack::{StackDepths, StackError};

/// The ways in which control passes from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Falling through to the next instruction.
    Next,
    /// The jump of the block's last instruction.
    Jump,
    /// An exception raised by any instruction of the block.
    Exception,
}

/// An edge of the graph, to the block with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The kind of edge.
    pub kind: EdgeKind,
    /// The index of the target block.
    pub to: usize,
}

/// Instructions that run one after the other and share an exception handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The index of its first instruction.
    pub first: usize,
    /// The index after its last instruction.
    pub end: usize,
    /// The edges from here: fall-through, jump and handler, as far as they exist.
    pub successors: Vec<Edge>,
    /// The blocks with an edge of any kind to this one, ascending.
    pub predecessors: Vec<usize>,
    /// The handler of its instructions.
    pub handler: Option<Handler>,
}

/// The control-flow graph; block 0 is the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The blocks in the order of their instructions.
    pub blocks: Vec<Block>,
    /// For each instruction, the index of its block.
    pub block_of: Vec<usize>,
}

/// Returns true if control never falls through to the next instruction.
pub fn ends_flow(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::ReturnValue
            | Opcode::ReturnConst
            | Opcode::RaiseVarargs
            | Opcode::Reraise
            | Opcode::JumpForward
            | Opcode::JumpBackward
            | Opcode::JumpBackwardNoInterrupt
    )
}

impl Flow {
    /// Builds the graph of a code object.
    pub fn of(code: &Code) -> Self {
        let instruction_of = |unit: u32| code.index[unit as usize] as usize;
        let count = code.instructions.len();
        let mut leaders = vec![false; count + 1];
        leaders[0] = true;
        for (at, instruction) in code.instructions.iter().enumerate() {
            if let Some(target) = instruction.target {
                leaders[instruction_of(target)] = true;
            }
            leaders[at + 1] |= instruction.target.is_some() || ends_flow(instruction.opcode);
        }
        for region in &code.handlers {
            leaders[instruction_of(region.handler.target)] = true;
            leaders[instruction_of(region.start)] = true;
            leaders[code.index.get(region.end as usize).map_or(count, |&at| at as usize)] = true;
        }
        let starts: Vec<usize> = (0..count).filter(|&at| leaders[at]).collect();
        let mut block_of = vec![0; count];
        let mut blocks: Vec<Block> = Vec::with_capacity(starts.len());
        for (index, &first) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(count);
            block_of[first..end].fill(index);
            let handler = code.handler_for(code.instructions[first].unit);
            blocks.push(Block { first, end, successors: Vec::new(), predecessors: Vec::new(), handler });
        }
        for index in 0..blocks.len() {
            let block = &blocks[index];
            let last = &code.instructions[block.end - 1];
            let next = (!ends_flow(last.opcode) && block.end < count).then_some((EdgeKind::Next, block.end));
            let jump = last.target.map(|target| (EdgeKind::Jump, instruction_of(target)));
            let handler = block.handler.map(|handler| (EdgeKind::Exception, instruction_of(handler.target)));
            for (kind, to) in [next, jump, handler].into_iter().flatten() {
                let to = block_of[to];
                blocks[index].successors.push(Edge { kind, to });
                if blocks[to].predecessors.last() != Some(&index) {
                    blocks[to].predecessors.push(index);
                }
            }
        }
        Self { blocks, block_of }
    }

    /// Returns the instructions of a block.
    pub fn instructions<'a>(&self, code: &'a Code, block: usize) -> &'a [Instruction] {
        &code.instructions[self.blocks[block].first..self.blocks[block].end]
    }

    /// Returns the blocks reachable from the entry, each before its successors except along back edges of loops.
    pub fn reverse_postorder(&self) -> Vec<usize> {
        let mut seen = vec![false; self.blocks.len()];
        let mut order = Vec::with_capacity(self.blocks.len());
        // An explicit stack of blocks and the number of their successors visited so far: recursion would be as deep as the code.
        let mut open: Vec<(usize, usize)> = Vec::new();
        if !self.blocks.is_empty() {
            seen[0] = true;
            open.push((0, 0));
        }
        while let Some((block, visited)) = open.last_mut() {
            if let Some(edge) = self.blocks[*block].successors.get(*visited) {
                *visited += 1;
                if !std::mem::replace(&mut seen[edge.to], true) {
                    open.push((edge.to, 0));
                }
            } else {
                order.push(*block);
                open.pop();
            }
        }
        order.reverse();
        order
    }
}
