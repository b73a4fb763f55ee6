//! Patterns of `case`, read from the instructions that test them.
//!
//! The tests of a pattern follow one another. If one fails, the rest of the subject is dropped on the path to the next case. So the path on
//! which all tests succeed is followed, with symbols in place of the values on the stack: the tests of a symbol, and the use of its parts,
//! determine its pattern. Alternatives are followed one by one, up to where they meet.

use std::collections::HashSet;

use dynamlir_bytecode::{Code, Const, Instruction, Opcode, StackDepths, ends_flow};

use crate::{
    ast::{Expr, Pattern},
    lift::{Source, lift},
    op::{Display, Op, Scope},
};

mod symbols;

use symbols::{Id, Sequence, Shape, Symbol, Way, is_path, is_value, pattern};

/// More steps than the patterns of any case have.
const FUEL: u32 = 5_000;

/// A pattern, and the successors of its test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<'a> {
    pub pattern: Pattern<'a>,
    /// The names that it stores, with their scopes.
    pub stores: Vec<(Scope, &'a str)>,
    /// The instruction after the pattern, and the steps of the previous instruction that also belong after it.
    pub matched: usize,
    pub rest: Vec<Op<'a>>,
    /// The instruction reached if it does not match; `None` if it always does.
    pub failed: Option<usize>,
}

/// An entry on the stack.
#[derive(Clone, Debug, PartialEq)]
enum Entry<'a> {
    Symbol(Id),
    Length(Id),
    /// The length minus a number.
    FromEnd(Id, usize),
    Expr(Expr<'a>),
    /// A test of a symbol that has been recorded: only its jump remains.
    Test,
    Keys(Vec<Expr<'a>>),
    /// A mapping's values for keys, or None.
    Values(Id),
    /// The attributes that a class pattern requests, or None.
    Attributes(Id),
    /// A dict under construction for `**rest`.
    Made,
    Rest(Id),
}

/// The target of a failed test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The next case.
    Case,
    /// The alternative that starts there.
    Alternative(usize),
}

/// The reasons why following a path ends.
#[derive(Debug)]
enum Stop {
    /// The code does not match any pattern.
    Odd,
    /// A test leads to an unknown alternative.
    Alternative(usize),
}

/// A position on the path.
#[derive(Clone, Debug)]
struct State<'a> {
    at: usize,
    stack: Vec<Entry<'a>>,
    symbols: Vec<Symbol<'a>>,
    stores: Vec<(Scope, &'a str)>,
}

/// Follows a pattern.
struct Walker<'a, 'b> {
    source: &'b Source<'a>,
    code: &'b Code,
    depths: &'b StackDepths,
    /// The stack depth at the start of the next case.
    base: u32,
    keeps: bool,
    failed: Option<usize>,
    fuel: u32,
    /// Copies that do not start alternatives.
    plain: HashSet<usize>,
}

/// Finds the pattern of a case that starts at an instruction. A case with a successor starts with a copy of the subject; the last one is
/// recognised by its predecessor.
pub(crate) fn find<'a>(source: &Source<'a>, code: &Code, depths: &StackDepths, at: usize, last: bool) -> Option<Found<'a>> {
    let keeps = !last;
    let depth = depths.before[at]?;
    let base = depth.checked_sub(u32::from(last))?;
    let mut walker = Walker { source, code, depths, base, keeps, failed: None, fuel: FUEL, plain: HashSet::new() };
    let mut state = State { at, stack: vec![Entry::Symbol(0)], symbols: vec![Symbol::default()], stores: Vec::new() };
    if keeps {
        let copy = &code.instructions[at];
        if (copy.opcode, copy.arg) != (Opcode::Copy, 1) {
            return None;
        }
        // The copy is tested.
        state.stack = vec![Entry::Symbol(0), Entry::Symbol(1)];
        state.symbols.push(Symbol::default());
        state.at = at + 1;
    }
    let rest = walker.follow(&mut state, &[Failure::Case], &mut None).ok()?;
    let pattern = pattern(&state.symbols, usize::from(keeps))?;
    Some(Found { pattern, stores: state.stores, matched: state.at, rest, failed: walker.failed })
}

impl<'a> Walker<'a, '_> {
    /// Skips instructions that do nothing.
    fn settle(&self, mut at: usize) -> Option<usize> {
        for _ in 0..=self.code.instructions.len() {
            let instruction = self.code.instructions.get(at)?;
            at = match instruction.opcode {
                Opcode::Nop | Opcode::NotTaken => at + 1,
                Opcode::JumpForward | Opcode::JumpBackward | Opcode::JumpBackwardNoInterrupt => self.index(instruction.target?)?,
                _ => return Some(at),
            };
        }
        None
    }

    fn index(&self, unit: u32) -> Option<usize> {
        self.code.index.get(unit as usize).map(|&at| at as usize)
    }

    /// Returns the target of a failed test, after the values that it drops.
    fn failure(&mut self, at: usize) -> Result<Failure, Stop> {
        let mut at = self.settle(at).ok_or(Stop::Odd)?;
        for _ in 0..=self.code.instructions.len() {
            if self.depths.before[at] == Some(self.base) {
                return match self.failed.replace(at) {
                    Some(other) if other != at => Err(Stop::Odd),
                    _ => Ok(Failure::Case),
                };
            }
            if self.code.instructions[at].opcode != Opcode::PopTop {
                return Ok(Failure::Alternative(at));
            }
            at = self.settle(at + 1).ok_or(Stop::Odd)?;
        }
        Err(Stop::Odd)
    }

    /// Follows the path on which all tests succeed, to the end of the pattern. Returns the remaining steps of the pattern's last
    /// instruction. Records each position in `trace`, if given.
    fn follow(&mut self, state: &mut State<'a>, failures: &[Failure], trace: &mut Option<Vec<State<'a>>>) -> Result<Vec<Op<'a>>, Stop> {
        loop {
            self.fuel = self.fuel.checked_sub(1).ok_or(Stop::Odd)?;
            state.at = self.settle(state.at).ok_or(Stop::Odd)?;
            let instruction = &self.code.instructions[state.at];
            if self.is_done(state, instruction) {
                return Ok(Vec::new());
            }
            // Nothing is stored before all tests have succeeded.
            if !state.stores.is_empty() && !is_store(instruction.opcode) && !matches!(instruction.opcode, Opcode::Swap | Opcode::PopTop) {
                return Err(Stop::Odd);
            }
            // Alternatives meet before anything below them is popped.
            if let Some(trace) = trace
                && trace.first().is_none_or(|first| first.stack.len() <= state.stack.len() + 1)
            {
                trace.push(state.clone());
            }
            if instruction.opcode == Opcode::ToBool {
                state.at += 1;
                continue;
            }
            if (instruction.opcode, instruction.arg) == (Opcode::Copy, 1)
                && !self.plain.contains(&state.at)
                && let Some(Entry::Symbol(tested)) = state.stack.last()
                && self.alternatives(state, *tested, failures)?
            {
                continue;
            }
            if instruction.opcode.name().starts_with("POP_JUMP") {
                self.test(state, instruction, failures)?;
                continue;
            }
            if ends_flow(instruction.opcode) || instruction.target.is_some() {
                return Err(Stop::Odd);
            }
            let mut ops = Vec::new();
            lift(self.source, instruction, &mut ops).map_err(|_| Stop::Odd)?;
            state.at += 1;
            let mut ops = ops.into_iter();
            while let Some(op) = ops.next() {
                Self::step(state, op)?;
                // A store and a load may be combined in one instruction.
                let captures = self.keeps && matches!(ops.as_slice().first(), Some(Op::Store(..)));
                if ops.len() > 0 && self.is_stored(state) && !captures {
                    return Ok(ops.collect());
                }
            }
        }
    }

    /// Returns true if the pattern is complete. A store after it captures the subject itself.
    fn is_done(&self, state: &State<'a>, instruction: &Instruction) -> bool {
        self.is_stored(state) && !(self.keeps && is_store(instruction.opcode))
    }

    fn is_stored(&self, state: &State<'a>) -> bool {
        if self.keeps { state.stack == [Entry::Symbol(0)] } else { state.stack.is_empty() }
    }

    /// Handles a jump taken if a test fails.
    fn test(&mut self, state: &mut State<'a>, instruction: &Instruction, failures: &[Failure]) -> Result<(), Stop> {
        let name = instruction.opcode.name();
        let target = instruction.target.and_then(|unit| self.index(unit)).ok_or(Stop::Odd)?;
        let (taken, next) = (target, state.at + 1);
        let tested = state.stack.pop().ok_or(Stop::Odd)?;
        // True if the jump is taken when the test succeeds.
        let holds = match tested {
            Entry::Test if name.ends_with("IF_TRUE") => true,
            Entry::Test if name.ends_with("IF_FALSE") => false,
            // `COPY 1` before it has kept the values on the stack.
            Entry::Values(_) | Entry::Attributes(_) if name.ends_with("NONE") => name.ends_with("NOT_NONE"),
            Entry::Symbol(symbol) if name.ends_with("NONE") => {
                Self::ask(state, symbol, Shape::Value(Expr::Const(&crate::lift::NONE)))?;
                !name.ends_with("NOT_NONE")
            }
            _ => return Err(Stop::Odd),
        };
        let (yes, no) = if holds { (taken, next) } else { (next, taken) };
        let failure = self.failure(no)?;
        state.at = yes;
        match failure {
            failure if failures.contains(&failure) => Ok(()),
            Failure::Alternative(at) => Err(Stop::Alternative(at)),
            Failure::Case => Err(Stop::Odd),
        }
    }

    fn ask(state: &mut State<'a>, symbol: Id, shape: Shape<'a>) -> Result<(), Stop> {
        let known = &mut state.symbols.get_mut(symbol).ok_or(Stop::Odd)?.shape;
        match known {
            None => {
                *known = Some(shape);
                Ok(())
            }
            Some(_) => Err(Stop::Odd),
        }
    }

    fn fresh(state: &mut State<'a>, count: usize) -> Vec<Id> {
        let first = state.symbols.len();
        state.symbols.extend((0..count).map(|_| Symbol::default()));
        (first..first + count).collect()
    }

    fn sequence<'s>(state: &'s mut State<'a>, symbol: Id) -> Result<&'s mut Sequence, Stop> {
        match &mut state.symbols.get_mut(symbol).ok_or(Stop::Odd)?.shape {
            Some(Shape::Sequence(sequence)) => Ok(sequence),
            _ => Err(Stop::Odd),
        }
    }

    /// Follows alternatives that start with a copy of the tested value; returns false if the copy is something else.
    fn alternatives(&mut self, state: &mut State<'a>, tested: Id, failures: &[Failure]) -> Result<bool, Stop> {
        let depth = self.depths.before[state.at];
        let mut ways: Vec<Vec<State<'a>>> = Vec::new();
        let mut next = Some(state.at);
        while let Some(start) = next {
            let mut way = State { at: start + 1, ..state.clone() };
            let alias = Self::fresh(&mut way, 1)[0];
            way.stack.push(Entry::Symbol(alias));
            // Finds the target of the first failing test that does not lead where the others do.
            let mut trace = Some(Vec::new());
            let failed = self.failed;
            next = match self.follow(&mut way.clone(), failures, &mut trace) {
                Err(Stop::Alternative(at)) if self.depths.before[at] == depth && self.is_copy(at) && at > start => Some(at),
                Ok(_) if !ways.is_empty() => None,
                _ => {
                    self.failed = failed;
                    self.plain.insert(state.at);
                    return Ok(false);
                }
            };
            if let Some(at) = next {
                let known: Vec<Failure> = failures.iter().copied().chain([Failure::Alternative(at)]).collect();
                trace = Some(Vec::new());
                self.follow(&mut way, &known, &mut trace)?;
            }
            ways.push(trace.unwrap_or_default());
        }
        // The position where they meet.
        let meets = |place: &&State<'a>| ways.iter().all(|way| way.iter().any(|other| other.at == place.at));
        let at = ways.first().and_then(|way| way.iter().find(meets)).ok_or(Stop::Odd)?.at;
        let below = state.stack.len();
        let count = |way: &Vec<State<'a>>| way.iter().find(|place| place.at == at).map(|place| place.stack.len());
        let captured = ways.first().and_then(count).and_then(|count| count.checked_sub(below)).ok_or(Stop::Odd)?;
        let mut found = Vec::new();
        for way in ways {
            let place = way.into_iter().find(|place| place.at == at).ok_or(Stop::Odd)?;
            if place.stack.len() != below + captured || place.stack[..below] != state.stack[..] {
                return Err(Stop::Odd);
            }
            let symbol = |entry: &Entry<'a>| if let Entry::Symbol(symbol) = entry { Ok(*symbol) } else { Err(Stop::Odd) };
            let captured = place.stack[below..].iter().map(symbol).collect::<Result<Vec<Id>, Stop>>()?;
            found.push(Way { symbols: place.symbols, tested: state.symbols.len(), captured });
        }
        let merged = Self::fresh(state, captured);
        Self::ask(state, tested, Shape::Alternatives { ways: found, captured: merged.clone() })?;
        state.stack.extend(merged.into_iter().map(Entry::Symbol));
        state.at = at;
        Ok(true)
    }

    fn is_copy(&self, at: usize) -> bool {
        let instruction = &self.code.instructions[at];
        (instruction.opcode, instruction.arg) == (Opcode::Copy, 1)
    }

    /// Runs one step of a test.
    fn step(state: &mut State<'a>, op: Op<'a>) -> Result<(), Stop> {
        let stack = &mut state.stack;
        let pop = |stack: &mut Vec<Entry<'a>>| stack.pop().ok_or(Stop::Odd);
        let made = match op {
            Op::Copy(n) => {
                let at = stack.len().checked_sub(n).ok_or(Stop::Odd)?;
                stack.get(at).cloned().ok_or(Stop::Odd)?
            }
            Op::Swap(n) => {
                let (top, other) = (stack.len().checked_sub(1).ok_or(Stop::Odd)?, stack.len().checked_sub(n).ok_or(Stop::Odd)?);
                stack.swap(top, other.min(top));
                return Ok(());
            }
            Op::Pop => {
                pop(stack)?;
                return Ok(());
            }
            Op::Push(expr) => Entry::Expr(expr),
            Op::Attribute(name) => match pop(stack)? {
                Entry::Expr(value) => Entry::Expr(Expr::Attribute(Box::new(value), name)),
                _ => return Err(Stop::Odd),
            },
            Op::Unary(operator) => match pop(stack)? {
                Entry::Expr(value) => Entry::Expr(Expr::Unary(operator, Box::new(value))),
                _ => return Err(Stop::Odd),
            },
            Op::Binary(symbol @ ("+" | "-")) => match (pop(stack)?, pop(stack)?) {
                (Entry::Expr(right), Entry::Expr(left)) => Entry::Expr(Expr::Binary(symbol, Box::new(left), Box::new(right))),
                (Entry::Expr(count), Entry::Length(symbol)) => Entry::FromEnd(symbol, number(&count).ok_or(Stop::Odd)?),
                _ => return Err(Stop::Odd),
            },
            Op::Compare("is") => match (pop(stack)?, pop(stack)?) {
                (Entry::Expr(value @ Expr::Const(Const::None | Const::Bool(_))), Entry::Symbol(symbol)) => {
                    Self::ask(state, symbol, Shape::Value(value))?;
                    Entry::Test
                }
                _ => return Err(Stop::Odd),
            },
            // `COPY 1; LOAD_CONST None; IS_OP 1`, in versions without a combined instruction.
            Op::Compare("is not") => match (pop(stack)?, pop(stack)?) {
                (Entry::Expr(Expr::Const(Const::None)), Entry::Values(_) | Entry::Attributes(_)) => Entry::Test,
                _ => return Err(Stop::Odd),
            },
            Op::Compare(symbol @ ("==" | ">=")) => match (pop(stack)?, pop(stack)?) {
                (Entry::Expr(count), Entry::Length(of)) => {
                    let count = number(&count).ok_or(Stop::Odd)?;
                    match (&mut state.symbols.get_mut(of).ok_or(Stop::Odd)?.shape, symbol) {
                        (Some(Shape::Sequence(sequence)), "==") => sequence.exact = Some(count),
                        (Some(Shape::Sequence(sequence)), _) => sequence.least = Some(count),
                        // A mapping has at least as many items as keys.
                        (Some(Shape::Mapping { .. }), ">=") => {}
                        _ => return Err(Stop::Odd),
                    }
                    Entry::Test
                }
                (Entry::Expr(value), Entry::Symbol(symbol_of)) if symbol == "==" && is_value(&value, false) => {
                    Self::ask(state, symbol_of, Shape::Value(value))?;
                    Entry::Test
                }
                _ => return Err(Stop::Odd),
            },
            Op::GetLength => match stack.last() {
                Some(Entry::Symbol(symbol)) => Entry::Length(*symbol),
                _ => return Err(Stop::Odd),
            },
            Op::MatchSequence => match stack.last() {
                Some(&Entry::Symbol(symbol)) => {
                    Self::ask(state, symbol, Shape::Sequence(Sequence::default()))?;
                    Entry::Test
                }
                _ => return Err(Stop::Odd),
            },
            Op::MatchMapping => match stack.last() {
                Some(&Entry::Symbol(symbol)) => {
                    Self::ask(state, symbol, Shape::Mapping { keys: Vec::new(), values: Vec::new(), rest: None })?;
                    Entry::Test
                }
                _ => return Err(Stop::Odd),
            },
            Op::Build(Display::Tuple, count) => {
                let from = stack.len().checked_sub(count).ok_or(Stop::Odd)?;
                let key = |entry| if let Entry::Expr(key) = entry { Ok(key) } else { Err(Stop::Odd) };
                Entry::Keys(stack.split_off(from).into_iter().map(key).collect::<Result<_, Stop>>()?)
            }
            Op::MatchKeys => {
                let given = pop(stack)?;
                let Some(&Entry::Symbol(symbol)) = stack.last() else { return Err(Stop::Odd) };
                let given: Vec<Expr<'a>> = match given {
                    Entry::Keys(keys) => keys,
                    Entry::Expr(Expr::Const(Const::Tuple(keys))) => keys.iter().map(Expr::Const).collect(),
                    _ => return Err(Stop::Odd),
                };
                if !given.iter().all(|key| is_value(key, true)) {
                    return Err(Stop::Odd);
                }
                match &mut state.symbols.get_mut(symbol).ok_or(Stop::Odd)?.shape {
                    Some(Shape::Mapping { keys, .. }) if keys.is_empty() => keys.clone_from(&given),
                    _ => return Err(Stop::Odd),
                }
                state.stack.push(Entry::Keys(given));
                Entry::Values(symbol)
            }
            Op::MatchClass(positional) => match (pop(stack)?, pop(stack)?, pop(stack)?) {
                (Entry::Expr(Expr::Const(Const::Tuple(names))), Entry::Expr(class), Entry::Symbol(symbol)) if is_path(&class) => {
                    let parts = Self::fresh(state, positional + names.len());
                    Self::ask(state, symbol, Shape::Class { class, names, parts })?;
                    Entry::Attributes(symbol)
                }
                _ => return Err(Stop::Odd),
            },
            Op::Unpack(count) => {
                let parts: Vec<Entry<'a>> = match pop(stack)? {
                    Entry::Symbol(symbol) => {
                        let items = Self::fresh(state, count);
                        Self::sequence(state, symbol)?.items = Some((items.clone(), None));
                        items.into_iter().map(Entry::Symbol).collect()
                    }
                    Entry::Values(symbol) => {
                        let made = Self::fresh(state, count);
                        match &mut state.symbols[symbol].shape {
                            Some(Shape::Mapping { keys, values, .. }) if keys.len() == count => values.clone_from(&made),
                            _ => return Err(Stop::Odd),
                        }
                        made.into_iter().map(Entry::Symbol).collect()
                    }
                    Entry::Attributes(symbol) => match &state.symbols[symbol].shape {
                        Some(Shape::Class { parts, .. }) if parts.len() == count => parts.iter().copied().map(Entry::Symbol).collect(),
                        _ => return Err(Stop::Odd),
                    },
                    Entry::Keys(keys) if keys.len() == count => keys.into_iter().map(Entry::Expr).collect(),
                    _ => return Err(Stop::Odd),
                };
                state.stack.extend(parts.into_iter().rev());
                return Ok(());
            }
            Op::UnpackEx(before, after) => {
                let Entry::Symbol(symbol) = pop(stack)? else { return Err(Stop::Odd) };
                let items = Self::fresh(state, before + 1 + after);
                Self::sequence(state, symbol)?.items = Some((items.clone(), Some(before)));
                state.stack.extend(items.into_iter().rev().map(Entry::Symbol));
                return Ok(());
            }
            Op::Subscript => {
                let place = pop(stack)?;
                let Entry::Symbol(symbol) = pop(stack)? else { return Err(Stop::Odd) };
                let (number, from_end) = match place {
                    Entry::Expr(place) => (number(&place).ok_or(Stop::Odd)?, false),
                    Entry::FromEnd(of, number) if of == symbol => (number, true),
                    _ => return Err(Stop::Odd),
                };
                let item = Self::fresh(state, 1)[0];
                Self::sequence(state, symbol)?.taken.push((number, from_end, item));
                Entry::Symbol(item)
            }
            // `**rest`: a copy of the subject without the keys.
            Op::BuildMap(0) => Entry::Made,
            Op::Update(1 | 2, false) => {
                let Entry::Symbol(symbol) = pop(stack)? else { return Err(Stop::Odd) };
                let made = stack.iter_mut().rev().find(|entry| **entry == Entry::Made).ok_or(Stop::Odd)?;
                *made = Entry::Rest(symbol);
                return Ok(());
            }
            Op::DeleteSubscript => match (pop(stack)?, pop(stack)?) {
                (Entry::Expr(_), Entry::Rest(_)) => return Ok(()),
                _ => return Err(Stop::Odd),
            },
            Op::Store(scope, name) => {
                state.stores.push((scope, name));
                let symbol = match pop(stack)? {
                    Entry::Symbol(symbol) => symbol,
                    Entry::Rest(symbol) => {
                        let captured = Self::fresh(state, 1)[0];
                        match &mut state.symbols[symbol].shape {
                            Some(Shape::Mapping { rest, .. }) => *rest = Some(captured),
                            _ => return Err(Stop::Odd),
                        }
                        captured
                    }
                    _ => return Err(Stop::Odd),
                };
                state.symbols.get_mut(symbol).ok_or(Stop::Odd)?.names.push(name);
                return Ok(());
            }
            _ => return Err(Stop::Odd),
        };
        state.stack.push(made);
        Ok(())
    }
}

fn is_store(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::StoreFast
            | Opcode::StoreName
            | Opcode::StoreGlobal
            | Opcode::StoreDeref
            | Opcode::StoreFastStoreFast
            | Opcode::StoreFastLoadFast
    )
}

fn number(value: &Expr<'_>) -> Option<usize> {
    if let Expr::Const(Const::Int(digits)) = value { digits.parse().ok() } else { None }
}
