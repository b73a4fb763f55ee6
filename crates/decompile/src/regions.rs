//! The purposes of the exception table's handlers, inferred from their code, and how they nest.

use std::collections::HashMap;

use dynamlir_bytecode::{Code, Handler, Instruction, Opcode, StackDepths};

use crate::{Problem, lift::Source};

pub(crate) type RegionId = usize;

/// The kind of a protected region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The body of a `try` with `except` clauses.
    Except,
    /// The body of a `try` with `except*` clauses.
    Star,
    /// The body of a `try` with `finally`.
    Finally,
    /// The body of a `with`.
    With,
    /// The code that handles an exception, from catching it to finishing with it.
    Handling,
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub kind: Kind,
    /// The index of the handler's first instruction.
    pub entry: usize,
    pub handler: Handler,
    pub parent: Option<RegionId>,
}

/// All regions of a code object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions(pub Vec<Region>);

impl Regions {
    /// Returns the region and its enclosing regions, innermost first.
    pub fn chain(&self, region: Option<RegionId>) -> impl Iterator<Item = RegionId> {
        std::iter::successors(region, |&at| self.0[at].parent)
    }

    /// Returns true if code in `inner` is in `outer` too.
    pub fn within(&self, inner: Option<RegionId>, outer: RegionId) -> bool {
        self.chain(inner).any(|region| region == outer)
    }

    /// Returns the region directly in `outer` that contains `inner`; `None` if `inner` is not deeper.
    pub fn towards(&self, outer: Option<RegionId>, inner: Option<RegionId>) -> Option<RegionId> {
        self.chain(inner).find(|&region| self.0[region].parent == outer)
    }
}

/// The purpose of a handler, inferred from its code.
enum Class<'a> {
    Region(Kind),
    /// It unbinds the name of an `except … as`, then re-raises the exception.
    Unbinds(&'a str),
    /// It does not correspond to any source code.
    Invisible,
}

/// Finds regions by code unit.
pub(crate) struct Finder<'a, 'b> {
    source: &'b Source<'a>,
    code: &'b Code,
    depths: &'b StackDepths,
    known: HashMap<Handler, RegionId>,
    pub regions: Regions,
}

impl<'a, 'b> Finder<'a, 'b> {
    pub fn new(source: &'b Source<'a>, code: &'b Code, depths: &'b StackDepths) -> Self {
        Self { source, code, depths, known: HashMap::new(), regions: Regions::default() }
    }

    /// Returns the innermost region of a unit, and the name bound by an enclosing `except … as`.
    pub fn at(&mut self, unit: u32) -> Result<(Option<RegionId>, Option<&'a str>), Problem> {
        let mut bound = None;
        let mut unit = unit;
        // Each iteration goes to a handler at a smaller depth; malformed tables end the walk.
        for _ in 0..64 {
            let Some(handler) = self.code.handler_for(unit) else { return Ok((None, bound)) };
            match self.class(handler)? {
                Class::Region(kind) => return Ok((Some(self.region(kind, handler)?), bound)),
                Class::Unbinds(name) => bound = bound.or(Some(name)),
                Class::Invisible => {}
            }
            unit = handler.target;
        }
        Err(Problem::Malformed)
    }

    fn region(&mut self, kind: Kind, handler: Handler) -> Result<RegionId, Problem> {
        if let Some(&id) = self.known.get(&handler) {
            return Ok(id);
        }
        let id = self.regions.0.len();
        self.known.insert(handler, id);
        let entry = self.code.index[handler.target as usize] as usize;
        self.regions.0.push(Region { kind, entry, handler, parent: None });
        let (around, _) = self.at(handler.target)?;
        // The handler's own code is a region too, but it does not enclose the code that it protects.
        let own = |region: &Region| region.kind == Kind::Handling && region.handler.depth == handler.depth + u32::from(handler.lasti) + 1;
        let parent = match around {
            Some(around) if kind != Kind::Handling && own(&self.regions.0[around]) => self.regions.0[around].parent,
            around => around,
        };
        self.regions.0[id].parent = parent.filter(|&parent| parent != id);
        Ok(id)
    }

    fn class(&self, handler: Handler) -> Result<Class<'a>, Problem> {
        use Opcode as O;
        let first = self.code.index[handler.target as usize] as usize;
        let real: Vec<(usize, &Instruction)> = (first..self.code.instructions.len())
            .map(|at| (at, &self.code.instructions[at]))
            .filter(|(_, instruction)| instruction.opcode != Opcode::Nop)
            .take(5)
            .collect();
        let opcodes: Vec<Opcode> = real.iter().map(|(_, instruction)| instruction.opcode).collect();
        Ok(match opcodes[..] {
            [O::Copy, O::PopExcept, O::Reraise, ..] => Class::Region(Kind::Handling),
            [_, O::StoreFast, O::DeleteFast, O::Reraise, ..]
            | [_, O::StoreDeref, O::DeleteDeref, O::Reraise, ..]
            | [_, O::StoreName, O::DeleteName, O::Reraise, ..]
            | [_, O::StoreGlobal, O::DeleteGlobal, O::Reraise, ..]
                if self.source.is_none(real[0].1) =>
            {
                let stored = real[1].1;
                Class::Unbinds(match stored.opcode {
                    O::StoreFast | O::StoreDeref => self.source.slot(stored.arg)?,
                    _ => self.source.name(stored)?,
                })
            }
            // The end of a comprehension's scope; `StopIteration` in a generator; `throw` into an `await`; end of `async for`.
            [O::Swap, O::PopTop, ..] | [O::CallIntrinsic1, O::Reraise, ..] | [O::CleanupThrow | O::EndAsyncFor, ..] => Class::Invisible,
            [O::PushExcInfo, O::WithExceptStart, ..] => Class::Region(Kind::With),
            [O::PushExcInfo, O::PopTop, ..] => Class::Region(Kind::Except),
            [O::PushExcInfo, O::Copy, O::BuildList, O::Swap, ..] => Class::Region(Kind::Star),
            [O::PushExcInfo, ..] => Class::Region(self.except_or_finally(real[1].0)?),
            _ => return Err(Problem::Handler(handler.target)),
        })
    }

    /// Distinguishes the two. An `except` clause starts with its type, compared when nothing else is on the stack; a `finally` body starts
    /// with a statement.
    fn except_or_finally(&self, first: usize) -> Result<Kind, Problem> {
        let base = self.depths.before[first].ok_or(Problem::Malformed)?;
        for at in first..self.code.instructions.len() {
            let before = self.depths.before[at];
            match self.code.instructions[at].opcode {
                Opcode::CheckExcMatch if before == Some(base + 1) => return Ok(Kind::Except),
                Opcode::Reraise | Opcode::RaiseVarargs | Opcode::ReturnValue | Opcode::ReturnConst => break,
                _ if at > first && before.is_some_and(|before| before <= base) => break,
                _ => {}
            }
        }
        Ok(Kind::Finally)
    }
}
