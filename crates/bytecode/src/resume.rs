//! The rest of a function as a function: what runs from an instruction on, given the stack and the variables that are still read.
//!
//! ```text
//! for i in range(3):                        def __resume_at_46_1(iterator_0, x):
//!     print(i)             after print          x = x + 1
//!     x = x + 1           ───────────►          for i in iterator_0:
//! return x                                          print(i)
//!                                                   x = x + 1
//!                                               return x
//! ```
//!
//! Nothing runs it but who asks for it: frames that go on after a graph break are filled. A jump into a loop is no statement, so what is
//! left of the iteration is a copy before the loop ([`copies`]). A context that has been entered is entered again, by a parameter
//! that is to do nothing then. Variables that inner functions share are free variables here, so that they stay shared.

mod copies;

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use self::copies::{Copies, Copy};
use crate::{
    AssembleError, Assembly, Code, CodeObject, Const, DecodeError, Flow, Instruction, Liveness, Opcode, Operand, Operation, Position,
    Positions, Protected, StackDepths, StackError, Version, ends_flow, flags,
};

/// How a frame stands at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit of the instruction that is next.
    pub unit: u32,
    /// For each place of the stack, the lowest first, whether there is something; else it is NULL.
    pub stack: Vec<bool>,
    /// Whether the instruction is a call that runs, whose result is waited for.
    pub calls: bool,
}

/// Why the rest of a function is no function.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResumeError {
    /// Its frames are left and entered in the middle.
    #[error("it is a generator or a coroutine")]
    Later,
    /// No frame stands so.
    #[error("no frame stands so at unit {0}")]
    Place(u32),
    /// The code is not sound.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The code is not sound.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The instructions have no bytes.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// What runs from a place on, as a function with the name `__resume_at_<offset>_<index>`: its parameters are what is on the stack, then the
/// variables that are still read.
///
/// # Errors
/// Where there is no such function.
pub fn resume(code: &CodeObject, place: &Place, index: usize) -> Result<CodeObject, ResumeError> {
    if code.has(flags::GENERATOR | flags::COROUTINE | flags::ASYNC_GENERATOR | flags::ITERABLE_COROUTINE) {
        return Err(ResumeError::Later);
    }
    let decoded = code.decode()?;
    let flow = Flow::of(&decoded);
    let depths = StackDepths::of(&decoded, &flow)?;
    let nowhere = ResumeError::Place(place.unit);
    let (start, stack) = stands(&decoded, &depths, place).ok_or(nowhere)?;
    let copies = Copies::of(&decoded, &flow, &depths, start);
    let values: Vec<Value> = stack.iter().enumerate().map(|(at, real)| copies.value(at as u32, *real)).collect();
    let reached = copies.reached(start);
    let slots = Slots::new(code, &values, place.calls, &Liveness::of(&decoded, &flow).live(start), &copies.uses(start, &reached));
    let positions = code.positions()?;
    let mut writer =
        Writer { code: &decoded, flow: &flow, copies: &copies, positions, slots: &slots, made: Vec::new(), places: HashMap::new() };
    writer.prologue(&values);
    writer.blocks(start, &reached);
    let made = writer.finish().assemble(code.first_line)?;
    let offset = 2 * decoded.instructions[start].start;
    let name = format!("__resume_at_{offset}_{index}");
    let kept = !(flags::VARARGS | flags::VARKEYWORDS | flags::DOCSTRING);
    Ok(CodeObject {
        qualname: name.clone(),
        name,
        flags: code.flags & kept,
        arg_count: slots.parameters as u32,
        positional_only: 0,
        keyword_only: 0,
        stack_size: code.stack_size + 1,
        bytecode: made.bytecode,
        exception_table: made.exception_table,
        line_table: made.line_table,
        // A string would be the docstring.
        consts: std::iter::once(Const::None).chain(code.consts.iter().cloned()).collect(),
        varnames: slots.varnames,
        cellvars: Vec::new(),
        freevars: slots.freevars,
        ..code.clone()
    })
}

/// The instruction that is next, and the stack then: after a call what was below it, and its result.
fn stands(code: &Code, depths: &StackDepths, place: &Place) -> Option<(usize, Vec<bool>)> {
    let mut at = *code.index.get(place.unit as usize)? as usize;
    let mut stack = place.stack.clone();
    if depths.before[at]? as usize != stack.len() {
        return None;
    }
    if place.calls {
        while matches!(code.instructions[at].opcode, Opcode::KwNames | Opcode::Precall) {
            at += 1;
        }
        at += 1;
        stack.truncate((*depths.before.get(at)?)?.checked_sub(1)? as usize);
        stack.push(true);
    }
    Some((at, stack))
}

/// What is on the stack at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Null,
    /// What a loop in which the frame stands goes on with: is that next, or the rest of an iteration?
    Iterator {
        next: bool,
    },
    /// How a context is left in which the frame stands: the region of the instruction that enters it, and of what follows.
    Context {
        around: Option<Guard>,
        within: Guard,
    },
    /// The second place of what stands below, which the context or the loop fills itself.
    Beside,
    Other,
}

/// A handler, as a copy of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guard {
    to: Copy,
    depth: u32,
    lasti: bool,
}

/// The variables of the function that is made.
struct Slots {
    varnames: Vec<String>,
    freevars: Vec<String>,
    parameters: usize,
    /// The slot of each of the old ones.
    new: Vec<u32>,
    /// Those of what is on the stack.
    stack: Vec<Option<u32>>,
}

const UNNAMED: u32 = u32::MAX;

impl Slots {
    fn new(code: &CodeObject, values: &[Value], calls: bool, live: &[u32], used: &HashSet<u32>) -> Self {
        let old = code.slots();
        let is_cell = |name: &str| code.cellvars.iter().any(|cell| cell == name);
        let mut varnames: Vec<String> = Vec::new();
        let mut stack = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let mut name = match value {
                Value::Null | Value::Beside => {
                    stack.push(None);
                    continue;
                }
                Value::Iterator { .. } => format!("iterator_{at}"),
                Value::Context { .. } => format!("entered_{at}"),
                Value::Other if calls && at + 1 == values.len() => "returned".to_owned(),
                Value::Other => format!("stack_{at}"),
            };
            while old.contains(&name.as_str()) || code.names.contains(&name) {
                name.push('_');
            }
            stack.push(Some(varnames.len() as u32));
            varnames.push(name);
        }
        let own = |slot: usize| code.varnames.get(slot).filter(|name| !is_cell(name));
        varnames.extend(live.iter().filter_map(|&slot| own(slot as usize)).cloned());
        let parameters = varnames.len();
        let is_used = |name: &str| old.iter().zip(0..).any(|(known, slot)| *known == name && used.contains(&slot));
        let others = (0..code.varnames.len()).filter_map(own).filter(|name| !varnames.contains(name) && is_used(name));
        let others = others.cloned().collect::<Vec<_>>();
        varnames.extend(others);
        let freevars: Vec<String> = code.cellvars.iter().chain(&code.freevars).filter(|name| is_used(name)).cloned().collect();
        let place = |name: &&str| varnames.iter().chain(&freevars).position(|known| known == *name).map_or(UNNAMED, |at| at as u32);
        let new = old.iter().map(place).collect();
        Self { varnames, freevars, parameters, new, stack }
    }

    fn of(&self, slot: u32) -> u32 {
        self.new.get(slot as usize).copied().unwrap_or(UNNAMED)
    }
}

/// An instruction of the function that is made: it jumps to a copy of a block.
struct Made {
    operation: Operation,
    to: Option<Copy>,
    guard: Option<Guard>,
}

struct Writer<'a> {
    code: &'a Code,
    flow: &'a Flow,
    copies: &'a Copies<'a>,
    positions: Positions,
    slots: &'a Slots,
    made: Vec<Made>,
    /// Where each copy begins.
    places: HashMap<Copy, usize>,
}

impl Writer<'_> {
    fn emit(&mut self, opcode: Opcode, arg: u32, to: Option<Copy>, guard: Option<Guard>, position: Position) {
        self.made.push(Made { operation: Operation { opcode, arg, target: None, position }, to, guard });
    }

    /// What makes the stack.
    fn prologue(&mut self, values: &[Value]) {
        let (free, position) = (self.slots.freevars.len(), Position::default());
        if free > 0 {
            self.emit(Opcode::CopyFreeVars, free as u32, None, None, position);
        }
        self.emit(Opcode::Resume, 0, None, None, position);
        for (at, value) in values.iter().enumerate() {
            let guard = match value {
                Value::Iterator { next: false } | Value::Beside => continue,
                Value::Context { around, .. } => *around,
                _ => self.copies.guard_at(at as u32),
            };
            match self.slots.stack[at] {
                Some(slot) => self.emit(Opcode::LoadFast, slot, None, guard, position),
                None => self.emit(Opcode::PushNull, 0, None, guard, position),
            }
            match value {
                Value::Iterator { .. } => self.emit(Opcode::GetIter, 0, None, guard, position),
                Value::Context { within, .. } => {
                    for &(opcode, arg) in enter(self.code.version) {
                        self.emit(opcode, arg, None, guard, position);
                    }
                    self.emit(Opcode::PopTop, 0, None, Some(*within), position);
                }
                Value::Null | Value::Beside | Value::Other => {}
            }
        }
    }

    /// The blocks that run, in an order in which only loops jump backward.
    fn blocks(&mut self, start: usize, order: &[Copy]) {
        let entry = self.copies.start;
        if start == self.flow.blocks[entry.block].first {
            if order.first() != Some(&entry) {
                self.emit(Opcode::JumpForward, 0, Some(entry), None, Position::default());
            }
        } else {
            self.block(entry, start, order.first().copied());
        }
        for (at, copy) in order.iter().enumerate() {
            self.places.insert(*copy, self.made.len());
            self.block(*copy, self.flow.blocks[copy.block].first, order.get(at + 1).copied());
        }
    }

    fn block(&mut self, copy: Copy, from: usize, following: Option<Copy>) {
        let (code, flow) = (self.code, self.flow);
        let block = &flow.blocks[copy.block];
        let guard = self.copies.guard(copy);
        if let Some(place) = copy.begins {
            let position = copy.position(self.positions.at(code.instructions[from].unit));
            self.emit(Opcode::LoadFast, self.slots.stack[place as usize].unwrap_or(UNNAMED), None, guard, position);
            self.emit(Opcode::GetIter, 0, None, guard, position);
            let head = Copy { begins: None, ..copy };
            if following != Some(head) {
                self.emit(Opcode::JumpForward, 0, Some(head), guard, position);
            }
            return;
        }
        for instruction in self.copies.instructions(copy, from) {
            let target = instruction.target.map(|unit| flow.block_of[code.index[unit as usize] as usize]);
            let to = target.map(|to| self.copies.follow(copy, to));
            let position = copy.position(self.positions.at(instruction.unit));
            for (opcode, arg) in self.renamed(instruction) {
                self.emit(opcode, arg, to, guard, position);
            }
        }
        let last = &code.instructions[block.end - 1];
        if !ends_flow(last.opcode) && block.end < code.instructions.len() {
            let next = self.copies.follow(copy, flow.block_of[block.end]);
            if following != Some(next) {
                self.emit(Opcode::JumpForward, 0, Some(next), guard, copy.position(self.positions.at(last.unit)));
            }
        }
    }

    /// An instruction on the new variables and constants; pairs of the old ones are two.
    fn renamed(&self, instruction: &Instruction) -> Vec<(Opcode, u32)> {
        use Opcode as Op;
        let Instruction { opcode, arg, .. } = *instruction;
        let pair = |first, second| vec![(first, self.slots.of(arg >> 4)), (second, self.slots.of(arg & 15))];
        match (opcode, opcode.operand(self.code.version)) {
            // A local of the new function may end elsewhere, so nothing is borrowed.
            (Op::LoadFastLoadFast | Op::LoadFastBorrowLoadFastBorrow, _) => pair(Op::LoadFast, Op::LoadFast),
            (Op::LoadFastBorrow, _) => vec![(Op::LoadFast, self.slots.of(arg))],
            (Op::StoreFastLoadFast, _) => pair(Op::StoreFast, Op::LoadFast),
            (Op::StoreFastStoreFast, _) => pair(Op::StoreFast, Op::StoreFast),
            (_, Some(Operand::Local | Operand::Free)) => vec![(opcode, self.slots.of(arg))],
            (_, Some(Operand::Const)) => vec![(opcode, arg + 1)],
            _ => vec![(opcode, arg)],
        }
    }

    /// With places for copies.
    fn finish(self) -> Assembly {
        let Self { code, made, places, .. } = self;
        let place = |copy: Copy| places.get(&copy).copied().unwrap_or_default();
        let operations = made.iter().enumerate().map(|(at, made)| {
            let target = made.to.map(place);
            let opcode = if target.is_some_and(|target| target > at) { forward(made.operation.opcode) } else { made.operation.opcode };
            Operation { opcode, target, ..made.operation }
        });
        let mut protected: Vec<Protected> = Vec::new();
        for (at, made) in made.iter().enumerate() {
            let Some(Guard { to, depth, lasti }) = made.guard else { continue };
            let target = place(to);
            match protected.last_mut().filter(|last| (last.end, last.target, last.depth, last.lasti) == (at, target, depth, lasti)) {
                Some(last) => last.end = at + 1,
                None => protected.push(Protected { start: at, end: at + 1, target, depth, lasti }),
            }
        }
        Assembly { version: code.version, operations: operations.collect(), protected }
    }
}

/// The instructions that enter the context on top.
fn enter(version: Version) -> &'static [(Opcode, u32)] {
    use Opcode as Op;
    match version {
        Version::V3_11 | Version::V3_12 | Version::V3_13 => &[(Op::BeforeWith, 0)],
        // `__exit__` stays, with a place for its object; `__enter__` is called.
        Version::V3_14 | Version::V3_15 => {
            &[(Op::Copy, 1), (Op::LoadSpecial, 1), (Op::Swap, 2), (Op::Swap, 3), (Op::LoadSpecial, 0), (Op::Call, 0)]
        }
    }
}

/// The jump that is the same in the other direction.
fn forward(opcode: Opcode) -> Opcode {
    use Opcode as Op;
    match opcode {
        Op::JumpBackward | Op::JumpBackwardNoInterrupt => Op::JumpForward,
        Op::PopJumpBackwardIfTrue => Op::PopJumpForwardIfTrue,
        Op::PopJumpBackwardIfFalse => Op::PopJumpForwardIfFalse,
        Op::PopJumpBackwardIfNone => Op::PopJumpForwardIfNone,
        Op::PopJumpBackwardIfNotNone => Op::PopJumpForwardIfNotNone,
        opcode => opcode,
    }
}
