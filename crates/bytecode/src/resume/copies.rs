//! The rest of the current iteration, before the loop itself: blocks are copied once for each loop in which the function resumes.
//!
//! The level of a copy is the number of these loops whose current iteration it is part of. A path that leads back to the head of such a
//! loop, or out of it, leads to a copy of a lower level; level 0 is the original function. The iterator of a loop in its current iteration
//! is not on the stack: it is pushed where the loop begins.

use std::{cmp::Reverse, collections::HashSet};

use super::{Guard, Value};
use crate::{Code, Dominators, EdgeKind, Flow, Instruction, Opcode, Position, StackDepths, ends_flow, liveness};

/// A block, copied for the current iterations of `level` loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub level: usize,
    pub block: usize,
    /// If set, this is not the block itself but the code before it: a loop begins there, and its iterator goes to this stack slot.
    pub begins: Option<u32>,
}

/// A loop in which the function resumes.
struct Loop {
    header: usize,
    within: Vec<bool>,
    /// The handler of its head, by unit.
    handler: Option<u32>,
    /// The stack slot of its iterator.
    iterator: Option<u32>,
}

/// The copies of one function.
pub(super) struct Copies<'a> {
    code: &'a Code,
    flow: &'a Flow,
    depths: &'a StackDepths,
    /// The loops, outermost first.
    loops: Vec<Loop>,
    /// The copy where the function resumes.
    pub start: Copy,
    /// The handlers around `start`, innermost first, with their original depths.
    guards: Vec<(Guard, u32)>,
}

/// Added to the line numbers of copies: otherwise a copy and its original would be taken for one.
const LINES: u32 = 1_000_000;

impl<'a> Copies<'a> {
    pub fn of(code: &'a Code, flow: &'a Flow, depths: &'a StackDepths, start: usize) -> Self {
        let block = flow.block_of[start];
        let loops = loops(code, flow, depths, block);
        let is_head = |found: &&Loop| found.header == block && flow.blocks[block].first == start;
        let level = loops.len() - usize::from(loops.last().as_ref().is_some_and(is_head));
        let start = Copy { level, block, begins: None };
        let mut copies = Self { code, flow, depths, loops, start, guards: Vec::new() };
        let mut at = start;
        while let (Some(guard), Some(handler)) = (copies.guard(at), flow.blocks[at.block].handler) {
            // A handler's cleanup does not enclose the code that the handler protects.
            if copies.guards.last().is_none_or(|(_, depth)| handler.depth <= *depth) {
                copies.guards.push((guard, handler.depth));
            }
            at = guard.to;
        }
        copies
    }

    /// Returns the copy that a path from a copy to a block leads to.
    pub fn follow(&self, from: Copy, to: usize) -> Copy {
        let mut level = from.level;
        while let Some(found) = level.checked_sub(1).map(|at| &self.loops[at]) {
            if found.header != to && found.within[to] {
                break;
            }
            level -= 1;
            if found.header == to {
                return Copy { level, block: to, begins: found.iterator };
            }
        }
        Copy { level, block: to, begins: None }
    }

    /// Returns the handler of a copy. A handler around a loop does not belong to an iteration.
    pub fn guard(&self, of: Copy) -> Option<Guard> {
        let handler = self.flow.blocks[of.block].handler?;
        let mut level = of.level;
        while level > 0 && self.loops[level - 1].handler == Some(handler.target) {
            level -= 1;
        }
        let block = self.flow.block_of[self.code.index[handler.target as usize] as usize];
        let missing = self.missing(of.level).filter(|place| *place < handler.depth).count() as u32 * self.loop_places();
        Some(Guard { to: Copy { level, block, begins: None }, depth: handler.depth - missing, lasti: handler.lasti })
    }

    /// Returns the number of stack slots that a loop occupies.
    fn loop_places(&self) -> u32 {
        self.code.version.facts().iterator_places
    }

    /// Returns the slots whose iterators are not on the stack.
    fn missing(&self, level: usize) -> impl Iterator<Item = u32> {
        self.loops[..level].iter().filter_map(|found| found.iterator)
    }

    /// Returns the handler that is active while a stack slot is filled.
    pub fn guard_at(&self, place: u32) -> Option<Guard> {
        self.guards.iter().find(|(_, depth)| *depth <= place).map(|(guard, _)| *guard)
    }

    /// Returns the kind of value in a stack slot.
    pub fn value(&self, place: u32, real: bool) -> Value {
        let places = self.code.version.facts().with_places;
        let leaves_from = |place: u32, (guard, depth): &(Guard, u32)| {
            let from = self.flow.blocks[guard.to.block].first;
            *depth == place + places && self.code.instructions[from..].iter().take(2).any(|found| found.opcode == Opcode::WithExceptStart)
        };
        // From 3.14 on, the object of the exit method, or NULL, is above it.
        if places == 2 && place.checked_sub(1).is_some_and(|below| self.guards.iter().any(|guard| leaves_from(below, guard))) {
            return Value::Beside;
        }
        if self.loop_places() == 2 && place.checked_sub(1).is_some_and(|below| self.loops.iter().any(|found| found.iterator == Some(below)))
        {
            return Value::Beside;
        }
        match self.guards.iter().find(|guard| leaves_from(place, guard)) {
            _ if !real => Value::Null,
            Some((within, _)) => Value::Context { around: self.guard_at(place), within: *within },
            None if self.missing(self.start.level).any(|missing| missing == place) => Value::Iterator { next: false },
            None if self.loops.iter().any(|found| found.iterator == Some(place)) => Value::Iterator { next: true },
            None => Value::Other,
        }
    }

    /// Returns the instructions of a copy from index `from` on, without those that drop an iterator that is not on the stack.
    pub fn instructions(&self, of: Copy, from: usize) -> impl Iterator<Item = &'a Instruction> {
        let (code, depths, places) = (self.code, self.depths, self.loop_places());
        let missing: Vec<u32> = self.missing(of.level).collect();
        let drops = move |at: usize| {
            let is = |at: usize, opcode| code.instructions.get(at).is_some_and(|found: &Instruction| found.opcode == opcode);
            let pops = |at: usize| is(at, Opcode::PopTop) || is(at, Opcode::PopIter);
            let dropped = |place: u32| {
                let depth = |at: usize| depths.before[at].and_then(|depth| depth.checked_sub(place));
                // Drops the iterator below the return value: a swap with all slots of the loop, then a pop of each.
                let pops_below = |swap: usize| {
                    let turns = is(swap, Opcode::Swap) && code.instructions[swap].arg == places + 1 && depth(swap) == Some(places + 1);
                    turns && (1..=places as usize).all(|next| pops(swap + next))
                };
                let is_below = (0..=places as usize).filter_map(|back| at.checked_sub(back)).any(pops_below);
                is_below || pops(at) && depth(at).is_some_and(|depth| (1..=places).contains(&depth))
            };
            missing.iter().any(|place| dropped(*place))
        };
        (from..self.flow.blocks[of.block].end).filter(move |at| !drops(*at)).map(move |at| &code.instructions[at])
    }

    /// Returns all copies that run after the instruction where the function resumes, each before its successors except for loops.
    pub fn reached(&self, start: usize) -> Vec<Copy> {
        let mut found: HashSet<Copy> = HashSet::new();
        let mut open = vec![self.start];
        if self.flow.blocks[self.start.block].first == start {
            found.insert(self.start);
        }
        open.extend(self.guards.iter().map(|(guard, _)| guard.to).filter(|to| found.insert(*to)));
        while let Some(copy) = open.pop() {
            if copy.begins.is_some() {
                open.extend(Some(Copy { begins: None, ..copy }).filter(|to| found.insert(*to)));
                continue;
            }
            for edge in &self.flow.blocks[copy.block].successors {
                let to = match edge.kind {
                    EdgeKind::Exception => self.guard(copy).map(|guard| guard.to),
                    EdgeKind::Next | EdgeKind::Jump => Some(self.follow(copy, edge.to)),
                };
                open.extend(to.filter(|to| found.insert(*to)));
            }
        }
        let mut order: Vec<Copy> = found.into_iter().collect();
        order.sort_unstable_by_key(|copy| (Reverse(copy.level), copy.block, copy.begins.is_none()));
        order
    }

    /// Returns the variable slots read or written by these copies and by the first block from the resumed instruction on.
    pub fn uses(&self, start: usize, reached: &[Copy]) -> HashSet<u32> {
        let blocks = reached.iter().flat_map(|copy| self.flow.instructions(self.code, copy.block));
        let first = &self.code.instructions[start..self.flow.blocks[self.start.block].end];
        let uses = first.iter().chain(blocks).flat_map(|instruction| {
            let (reads, writes) = liveness::uses(self.code, instruction);
            reads.into_iter().chain(writes)
        });
        uses.collect()
    }
}

impl Copy {
    /// Returns the source position to give to a copied instruction.
    pub fn position(self, position: Position) -> Position {
        let line = |line: Option<u32>| line.map(|line| line + LINES * self.level as u32);
        Position { line: line(position.line), end_line: line(position.end_line), ..position }
    }
}

/// Returns the loops around a block, outermost first.
fn loops(code: &Code, flow: &Flow, depths: &StackDepths, block: usize) -> Vec<Loop> {
    let dominators = Dominators::of(flow);
    let mut found: Vec<(Loop, usize)> = Vec::new();
    for header in 0..flow.blocks.len() {
        let back = flow.blocks[header].predecessors.iter().copied().filter(|&from| dominators.dominates(header, from)).collect::<Vec<_>>();
        if back.is_empty() || !dominators.dominates(header, block) {
            continue;
        }
        let mut within = vec![false; flow.blocks.len()];
        within[header] = true;
        let mut open = back;
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut within[at], true) {
                open.extend(&flow.blocks[at].predecessors);
            }
        }
        let handler = flow.blocks[header].handler.map(|handler| handler.target);
        let first = flow.blocks[header].first;
        let is_for = code.instructions[first].opcode == Opcode::ForIter;
        let iterator = depths.before[first].filter(|_| is_for).and_then(|depth| depth.checked_sub(code.version.facts().iterator_places));
        let mut found_loop = Loop { header, within, handler, iterator };
        while found_loop.widen(code, flow, depths, &dominators) {}
        if found_loop.within[block] {
            let size = found_loop.within.iter().filter(|within| **within).count();
            found.push((found_loop, size));
        }
    }
    found.sort_by_key(|(_, size)| Reverse(*size));
    found.into_iter().map(|(found, _)| found).collect()
}

impl Loop {
    /// Adds blocks that belong to the loop without leading back: its own handlers, exits from the function, and code that drops the
    /// iterator.
    fn widen(&mut self, code: &Code, flow: &Flow, depths: &StackDepths, dominators: &Dominators) -> bool {
        let mut more = Vec::new();
        for (at, block) in flow.blocks.iter().enumerate() {
            if self.within[at] {
                let own = block.handler.filter(|own| Some(own.target) != self.handler);
                let own = own.map(|own| flow.block_of[code.index[own.target as usize] as usize]);
                more.extend((0..flow.blocks.len()).filter(|&other| own.is_some_and(|own| dominators.dominates(own, other))));
            } else {
                let last = code.instructions[block.end - 1];
                let leaves = ends_flow(last.opcode) && last.target.is_none();
                let has_iterator = self.iterator.is_some() && depths.before[block.first] > self.iterator;
                let is_own = block.predecessors.iter().all(|&from| self.within[from] && from != self.header);
                more.extend(((leaves || has_iterator) && is_own && !block.predecessors.is_empty()).then_some(at));
            }
        }
        let mut grown = false;
        for at in more {
            grown |= !std::mem::replace(&mut self.within[at], true);
        }
        grown
    }
}
