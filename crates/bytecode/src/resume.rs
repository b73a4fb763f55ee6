//! The rest of a function as a function: the code that runs from an instruction on, given the stack and the live variables.
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
//! It runs only on explicit request: after a graph break, the continuation fills a real frame instead. No statement can jump into a loop,
//! so the rest of the current iteration is a copy before the loop ([`copies`]). A context that is already entered is entered again, through
//! a parameter whose `__enter__` should do nothing. Variables shared with inner functions are free variables here, so that they stay
//! shared.

mod copies;

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use self::copies::{Copies, Copy};
use crate::{
    AssembleError, Assembly, Code, CodeObject, Const, DecodeError, Flow, Instruction, Liveness, Opcode, Operand, Operation, Position,
    Positions, Protected, StackDepths, StackError, Version, ends_flow, flags,
};

/// The state of a frame at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit of the next instruction.
    pub unit: u32,
    /// For each stack slot, the lowest first: true if it holds a value, false if it holds NULL.
    pub stack: Vec<bool>,
    /// True if the instruction is a call in progress whose result is pending.
    pub calls: bool,
}

/// The reasons why the rest of a function cannot become a function.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResumeError {
    /// Its frames are suspended and resumed in the middle.
    #[error("it is a generator or a coroutine")]
    Later,
    /// A frame cannot be in this state.
    #[error("no frame stands so at unit {0}")]
    Place(u32),
    /// The code is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The stack depths are inconsistent.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The instructions cannot be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// Returns the code that runs from a place on, as a function named `__resume_at_<offset>_<index>`. Its parameters are the values on the
/// stack, then the live variables.
///
/// # Errors
/// If such a function cannot be built.
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
        // A string in this position would be the docstring.
        consts: std::iter::once(Const::None).chain(code.consts.iter().cloned()).collect(),
        varnames: slots.varnames,
        cellvars: Vec::new(),
        freevars: slots.freevars,
        ..code.clone()
    })
}

/// Returns the next instruction and the stack before it. After a call, this is the stack below the call, plus its result.
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

/// The kind of value in a stack slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Null,
    /// The iterator of a loop that the frame is in. `next`: the loop continues with its next iteration, not with the rest of one.
    Iterator {
        next: bool,
    },
    /// The exit method of a context that the frame is in: the handler of the instruction that enters it, and the handler of what follows.
    Context {
        around: Option<Guard>,
        within: Guard,
    },
    /// The second slot of the value below, which the context or the loop fills itself.
    Beside,
    Other,
}

/// A handler, given by a copy of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guard {
    to: Copy,
    depth: u32,
    lasti: bool,
}

/// The variables of the new function.
struct Slots {
    varnames: Vec<String>,
    freevars: Vec<String>,
    parameters: usize,
    /// The new slot of each old slot.
    new: Vec<u32>,
    /// The parameter slots of the values on the stack.
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

/// An instruction of the new function; it may jump to a copy of a block.
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
    /// The index of each copy's first instruction.
    places: HashMap<Copy, usize>,
}

impl Writer<'_> {
    fn emit(&mut self, opcode: Opcode, arg: u32, to: Option<Copy>, guard: Option<Guard>, position: Position) {
        self.made.push(Made { operation: Operation { opcode, arg, target: None, position }, to, guard });
    }

    /// Emits the code that rebuilds the stack.
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

    /// Emits the blocks that run, in an order in which only loops jump backward.
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

    /// Returns an instruction with the new variables and constants. Instructions on pairs of variables become two.
    fn renamed(&self, instruction: &Instruction) -> Vec<(Opcode, u32)> {
        use Opcode as Op;
        let Instruction { opcode, arg, .. } = *instruction;
        let pair = |first, second| vec![(first, self.slots.of(arg >> 4)), (second, self.slots.of(arg & 15))];
        match (opcode, opcode.operand(self.code.version)) {
            // A local of the new function may have a different lifetime, so nothing is borrowed.
            (Op::LoadFastLoadFast | Op::LoadFastBorrowLoadFastBorrow, _) => pair(Op::LoadFast, Op::LoadFast),
            (Op::LoadFastBorrow, _) => vec![(Op::LoadFast, self.slots.of(arg))],
            (Op::StoreFastLoadFast, _) => pair(Op::StoreFast, Op::LoadFast),
            (Op::StoreFastStoreFast, _) => pair(Op::StoreFast, Op::StoreFast),
            (_, Some(Operand::Local | Operand::Free)) => vec![(opcode, self.slots.of(arg))],
            (_, Some(Operand::Const)) => vec![(opcode, arg + 1)],
            _ => vec![(opcode, arg)],
        }
    }

    /// Resolves copies to instruction indices.
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

/// Returns the instructions that enter the context on top of the stack.
fn enter(version: Version) -> &'static [(Opcode, u32)] {
    use Opcode as Op;
    match version {
        Version::V3_11 | Version::V3_12 | Version::V3_13 => &[(Op::BeforeWith, 0)],
        // `__exit__` stays on the stack, with a slot for its object; `__enter__` is called.
        Version::V3_14 | Version::V3_15 => {
            &[(Op::Copy, 1), (Op::LoadSpecial, 1), (Op::Swap, 2), (Op::Swap, 3), (Op::LoadSpecial, 0), (Op::Call, 0)]
        }
    }
}

/// Returns the same jump in the forward direction.
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
