//! Checks that two code objects of one version do the same.
//!
//! Both are walked side by side from their starts, and from the handlers of instructions that may raise: equal instructions must lead to
//! equal ones. The position of code does not matter, nor do the number of copies that the compiler made and the numbering of names. Two
//! code objects that pass do the same; two that fail may still be equivalent (the walk knows no algebra).

use std::collections::HashSet;

use thiserror::Error;

use crate::{
    Code, CodeObject, Const, DecodeError, Opcode, Operand, Version,
    disassemble::{SUBSCRIPT, meaning},
    ends_flow, flags,
    repr::repr,
};

/// The point where two code objects differ.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// One of them is malformed.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Their heads differ: parameters, flags, free variables, docstring.
    #[error("{0} differs")]
    Head(&'static str),
    /// Their instructions do different things.
    #[error("unit {at_a}, {a}, against unit {at_b}, {b}")]
    Step {
        /// The unit in the first code object.
        at_a: u32,
        /// The step at that unit.
        a: String,
        /// The unit in the second code object.
        at_b: u32,
        /// The step at that unit.
        b: String,
    },
    /// Exceptions raised there go to different handlers.
    #[error("exceptions at unit {at_a} and unit {at_b} are handled differently")]
    Handler {
        /// The unit in the first code object.
        at_a: u32,
        /// The unit in the second code object.
        at_b: u32,
    },
}

/// The flags that say what a function is; the others say how it was compiled.
const FLAGS: u32 = flags::VARARGS
    | flags::VARKEYWORDS
    | flags::GENERATOR
    | flags::COROUTINE
    | flags::ITERABLE_COROUTINE
    | flags::ASYNC_GENERATOR
    | flags::OPTIMIZED
    | flags::NEWLOCALS;

/// Compares two code objects. Code objects nested in them are compared only by name.
pub fn equivalent(a: &CodeObject, b: &CodeObject) -> Result<(), Difference> {
    let head = [
        ("the version", a.version == b.version),
        ("the name", a.name == b.name),
        ("the flags", a.flags & FLAGS == b.flags & FLAGS),
        ("the number of parameters", [a.arg_count, a.positional_only, a.keyword_only] == [b.arg_count, b.positional_only, b.keyword_only]),
        ("the parameters", a.varnames.iter().take(a.parameter_count()).eq(b.varnames.iter().take(b.parameter_count()))),
        ("the set of free variables", sorted(&a.freevars) == sorted(&b.freevars)),
        ("the set of cells", sorted(&a.cellvars) == sorted(&b.cellvars)),
        ("the docstring", a.docstring().map(repr) == b.docstring().map(repr)),
    ];
    if let Some((what, _)) = head.iter().find(|(_, same)| !same) {
        return Err(Difference::Head(what));
    }
    let (one, other) = (Side::new(a)?, Side::new(b)?);
    let mut seen = HashSet::new();
    let mut open = vec![(Place::START, Place::START)];
    while let Some((at, to)) = open.pop() {
        let (at, to) = (one.settle(at), other.settle(to));
        if !seen.insert((at, to)) {
            continue;
        }
        let (step, with) = (one.step(at), other.step(to));
        if step.what != with.what || step.ways.len() != with.ways.len() {
            return Err(Difference::Step { at_a: one.unit(at), a: step.what, at_b: other.unit(to), b: with.what });
        }
        if step.raises {
            match (one.code.handler_for(one.unit(at)), other.code.handler_for(other.unit(to))) {
                (None, None) => {}
                (Some(a), Some(b)) if (a.depth, a.lasti) == (b.depth, b.lasti) => {
                    open.push((one.place(a.target), other.place(b.target)));
                }
                _ => return Err(Difference::Handler { at_a: one.unit(at), at_b: other.unit(to) }),
            }
        }
        open.extend(step.ways.into_iter().zip(with.ways));
    }
    Ok(())
}

fn sorted(names: &[String]) -> Vec<&String> {
    let mut names: Vec<_> = names.iter().collect();
    names.sort();
    names
}

/// An instruction, or the second half of an instruction that does two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    instruction: usize,
    second: bool,
}

impl Place {
    const START: Self = Self { instruction: 0, second: false };

    /// The next instruction.
    fn after(self) -> Self {
        Self { instruction: self.instruction + 1, second: false }
    }
}

/// The action of an instruction, and its successors in a fixed order.
struct Step {
    what: String,
    ways: Vec<Place>,
    raises: bool,
}

/// One of the two code objects.
struct Side<'a> {
    object: &'a CodeObject,
    code: Code,
    slots: Vec<&'a str>,
}

impl<'a> Side<'a> {
    fn new(object: &'a CodeObject) -> Result<Self, Difference> {
        Ok(Self { object, code: object.decode()?, slots: object.slots() })
    }

    fn unit(&self, place: Place) -> u32 {
        self.code.instructions.get(place.instruction).map_or(u32::MAX, |instruction| instruction.unit)
    }

    fn place(&self, unit: u32) -> Place {
        Place { instruction: self.code.index.get(unit as usize).map_or(usize::MAX, |&at| at as usize), second: false }
    }

    /// Skips instructions that do nothing.
    fn settle(&self, place: Place) -> Place {
        let mut at = place;
        // A loop of jumps ends the walk; it equals any other such loop.
        for _ in 0..=self.code.instructions.len() {
            let Some(instruction) = self.code.instructions.get(at.instruction) else { break };
            at = match instruction.opcode {
                Opcode::Nop | Opcode::NotTaken | Opcode::Resume | Opcode::Precall | Opcode::MakeCell | Opcode::CopyFreeVars => at.after(),
                Opcode::JumpForward | Opcode::JumpBackward | Opcode::JumpBackwardNoInterrupt => self.target(at),
                // A constant that is dropped at once.
                Opcode::LoadConst | Opcode::LoadSmallInt if !at.second && self.follows(at, Opcode::PopTop) => at.after().after(),
                _ => return at,
            };
        }
        Place { instruction: usize::MAX, second: false }
    }

    /// Returns true if an instruction with this opcode comes next.
    fn follows(&self, place: Place, opcode: Opcode) -> bool {
        self.code.instructions.get(place.instruction + 1).is_some_and(|next| next.opcode == opcode)
    }

    /// Returns a bound of the constant slice that the next instruction subscripts with, and the place that follows. A slice with a bound
    /// that is not a literal loads its two bounds one after the other.
    fn bound(&self, place: Place) -> Option<(&Const, Place)> {
        let [load, user] = self.code.instructions.get(place.instruction..place.instruction + 2)? else { return None };
        let Some(Const::Slice(bounds)) = self.object.consts.get(load.arg as usize).filter(|_| load.opcode == Opcode::LoadConst) else {
            return None;
        };
        let subscripts = (user.opcode, user.arg as usize) == (Opcode::BinaryOp, SUBSCRIPT) || user.opcode == Opcode::StoreSubscr;
        let next = if place.second { place.instruction + 1 } else { place.instruction };
        let bound = &bounds[usize::from(place.second)];
        (subscripts && bounds[2] == Const::None).then_some((bound, Place { instruction: next, second: true }))
    }

    fn target(&self, place: Place) -> Place {
        let target = self.code.instructions[place.instruction].target;
        target.map_or(Place { instruction: usize::MAX, second: false }, |unit| self.place(unit))
    }

    /// Returns the place reached with a value of known truth that was kept on the stack: tests of it can go only one way.
    fn kept(&self, place: Place, truth: bool, limit: u32) -> (&'static str, Place) {
        let at = self.settle(place);
        let Some(instruction) = self.code.instructions.get(at.instruction).filter(|_| limit > 0) else { return ("keep", at) };
        match instruction.opcode {
            Opcode::JumpIfFalseOrPop | Opcode::JumpIfTrueOrPop => {
                if truth == (instruction.opcode == Opcode::JumpIfTrueOrPop) {
                    self.kept(self.target(at), truth, limit - 1)
                } else {
                    ("branch", at.after())
                }
            }
            opcode if opcode.name().ends_with("IF_TRUE") || opcode.name().ends_with("IF_FALSE") => {
                let jumps = truth == opcode.name().ends_with("IF_TRUE");
                ("branch", if jumps { self.target(at) } else { at.after() })
            }
            _ => ("keep", at),
        }
    }

    fn slot(&self, slot: u32) -> &'a str {
        self.slots.get(slot as usize).copied().unwrap_or("?")
    }

    fn step(&self, at: Place) -> Step {
        let Some(instruction) = self.code.instructions.get(at.instruction) else {
            return Step { what: "nothing".to_owned(), ways: Vec::new(), raises: false };
        };
        let version = self.code.version;
        let (opcode, arg) = (instruction.opcode, instruction.arg);
        let second = Place { second: true, ..at };
        let pair = |first: String, other: String| {
            let (what, next) = if at.second { (other, at.after()) } else { (first, second) };
            Step { what, ways: vec![next], raises: false }
        };
        let (high, low) = (self.slot(arg >> 4), self.slot(arg & 15));
        if let Some((bound, next)) = self.bound(at) {
            return Step { what: format!("LOAD_CONST {}", text(bound)), ways: vec![next], raises: false };
        }
        match opcode {
            // A constant slice is treated as two bounds.
            Opcode::BinaryOp if at.second => return Step { what: "BINARY_SLICE".to_owned(), ways: vec![at.after()], raises: true },
            Opcode::StoreSubscr if at.second => return Step { what: "STORE_SLICE".to_owned(), ways: vec![at.after()], raises: true },
            Opcode::LoadFastLoadFast | Opcode::LoadFastBorrowLoadFastBorrow => {
                return pair(format!("LOAD_FAST {high}"), format!("LOAD_FAST {low}"));
            }
            Opcode::StoreFastLoadFast => return pair(format!("STORE_FAST {high}"), format!("LOAD_FAST {low}")),
            Opcode::StoreFastStoreFast => return pair(format!("STORE_FAST {high}"), format!("STORE_FAST {low}")),
            Opcode::IsOp | Opcode::ContainsOp => {
                // A `not in` that decides a branch equals `in` with the branches exchanged.
                let next = self.settle(at.after());
                let branches = self.code.instructions.get(next.instruction).is_some_and(|next| {
                    matches!(
                        next.opcode,
                        Opcode::PopJumpIfTrue
                            | Opcode::PopJumpIfFalse
                            | Opcode::PopJumpForwardIfTrue
                            | Opcode::PopJumpForwardIfFalse
                            | Opcode::PopJumpBackwardIfTrue
                            | Opcode::PopJumpBackwardIfFalse
                    )
                });
                if branches && arg == 1 {
                    let ways = vec![Place { second: true, ..next }];
                    return Step { what: format!("{opcode} 0"), ways, raises: opcode == Opcode::ContainsOp };
                }
            }
            Opcode::LoadConst | Opcode::LoadSmallInt if version.facts().class_notes_its_place => {
                // A class's line number, and the attributes that its methods set (in no fixed order), do not affect what the class does.
                let next = self.settle(at.after());
                let stored = self.code.instructions.get(next.instruction);
                let name = stored.map_or("", |next| match next.opcode {
                    Opcode::StoreName | Opcode::StoreGlobal => self.object.names.get(next.arg as usize).map_or("", String::as_str),
                    Opcode::StoreDeref => self.slot(next.arg),
                    _ => "",
                });
                if let "__firstlineno__" | "__static_attributes__" = name {
                    return Step { what: format!("LOAD_CONST {name}"), ways: vec![at.after()], raises: false };
                }
            }
            Opcode::JumpIfFalseOrPop | Opcode::JumpIfTrueOrPop => {
                let truth = opcode == Opcode::JumpIfTrueOrPop;
                let (what, to) = self.kept(self.target(at), truth, 64);
                let ways = vec![at.after(), to];
                let (what, ways) = match (what, truth) {
                    ("branch", true) => (what.to_owned(), vec![to, at.after()]),
                    ("branch", false) => (what.to_owned(), ways),
                    _ => (format!("keep if {truth}"), ways),
                };
                return Step { what, ways, raises: true };
            }
            Opcode::ReturnConst if at.second => return Step { what: "RETURN_VALUE".to_owned(), ways: Vec::new(), raises: false },
            Opcode::ReturnConst => {
                let what = format!("LOAD_CONST {}", self.constant(arg));
                return Step { what, ways: vec![second], raises: false };
            }
            _ => {}
        }
        let name = opcode.name();
        if name.starts_with("POP_JUMP") {
            let (test, positive) =
                if name.ends_with("NONE") { ("branch on None", !name.ends_with("NOT_NONE")) } else { ("branch", name.ends_with("TRUE")) };
            let (on, off) = if positive { (self.target(at), at.after()) } else { (at.after(), self.target(at)) };
            // The test before this one was replaced by its opposite.
            let ways = if at.second { vec![off, on] } else { vec![on, off] };
            return Step { what: test.to_owned(), ways, raises: version.facts().jump_asks_for_truth };
        }
        let what = match opcode.operand(version) {
            _ if opcode == Opcode::LoadSmallInt => format!("LOAD_CONST {arg}"),
            _ if opcode == Opcode::LoadCommonConstant => match version.facts().common_constants.get(arg as usize) {
                Some(&value @ ("None" | "True" | "False" | "''" | "-1")) => format!("LOAD_CONST {value}"),
                value => format!("{name} {}", value.unwrap_or(&"?")),
            },
            // The argument is not a jump target here, though it is encoded like one.
            _ if opcode == Opcode::EndAsyncFor => name.to_owned(),
            Some(Operand::Const) => format!("{name} {}", self.constant(arg)),
            // Whether a local is known to be set depends on the surrounding code.
            _ if matches!(opcode, Opcode::LoadFastCheck | Opcode::LoadFastBorrow) => format!("LOAD_FAST {}", self.slot(arg)),
            Some(Operand::Name | Operand::Local | Operand::Free | Operand::Compare) => {
                format!("{name} {}", meaning(self.object, &self.slots, &self.code, instruction))
            }
            Some(Operand::Number) => format!("{name} {arg}"),
            _ => name.to_owned(),
        };
        let mut ways = Vec::new();
        if !ends_flow(opcode) {
            ways.push(at.after());
        }
        if instruction.target.is_some() {
            ways.push(self.target(at));
        }
        Step { what, ways, raises: may_raise(version, opcode) }
    }

    fn constant(&self, arg: u32) -> String {
        self.object.consts.get(arg as usize).map_or_else(|| "?".to_owned(), text)
    }
}

/// Returns a constant as text; constants of different types have different texts.
fn text(value: &Const) -> String {
    match value {
        Const::Code(code) => format!("code {}", code.name),
        // The order of a set's elements may depend on how it was built.
        Const::FrozenSet(items) => {
            let mut items: Vec<String> = items.iter().map(repr).collect();
            items.sort();
            format!("frozenset {items:?}")
        }
        Const::Float(float) => format!("{} {:x}", repr(value), float.to_bits()),
        Const::Complex(a, b) => format!("{} {:x} {:x}", repr(value), a.to_bits(), b.to_bits()),
        _ => repr(value),
    }
}

/// Returns true if an instruction can raise, as far as the choice of handler matters.
fn may_raise(version: Version, opcode: Opcode) -> bool {
    match opcode {
        Opcode::LoadFast => version.facts().load_fast_checks,
        Opcode::LoadConst
        | Opcode::LoadCommonConstant
        | Opcode::LoadFastBorrow
        | Opcode::LoadSmallInt
        | Opcode::NotTaken
        | Opcode::PopIter
        | Opcode::StoreFast
        | Opcode::PopTop
        | Opcode::Copy
        | Opcode::Swap
        | Opcode::PushNull
        | Opcode::PopExcept
        | Opcode::PushExcInfo
        | Opcode::ReturnValue
        | Opcode::LoadClosure
        | Opcode::KwNames
        | Opcode::LoadFastAndClear
        | Opcode::EndFor
        | Opcode::EndSend
        | Opcode::ReturnGenerator
        | Opcode::LoadAssertionError => false,
        _ => true,
    }
}
