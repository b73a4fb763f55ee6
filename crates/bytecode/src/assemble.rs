//! Assembles instructions into bytes: `co_code`, exception table and line table.
//!
//! Jumps and handlers refer to instructions by index; prefixes and distances are computed here. The output of CPython's compiler is
//! reproduced byte for byte, except for an occasional jump to which 3.13 gives a prefix that it does not need.

use thiserror::Error;

use crate::{
    Code, Handler, Opcode, Operand, Positions, Version, exceptions,
    positions::{self, Position},
    tables::table,
};

/// The reasons why instructions cannot be assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AssembleError {
    /// The version lacks the opcode.
    #[error("{0} has no {1}")]
    Opcode(Version, Opcode),
    /// An instruction that does not jump has a target, or one that jumps has none.
    #[error("instruction {0}, {1}, has a target where it must not, or none where it must")]
    Target(usize, Opcode),
    /// A backward jump leads forward, or the other way round.
    #[error("instruction {0}, {1}, cannot jump in that direction")]
    Direction(usize, Opcode),
    /// A jump or a handler refers to an instruction that does not exist.
    #[error("there is no instruction {0}")]
    Index(usize),
    /// The code would be longer than CPython can count.
    #[error("the code is too long")]
    TooLong,
}

/// An instruction without a position in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The opcode.
    pub opcode: Opcode,
    /// Its argument, unless it jumps.
    pub arg: u32,
    /// The index of the operation that it jumps to, if it jumps.
    pub target: Option<usize>,
    /// The source position that it comes from.
    pub position: Position,
}

/// Operations that share an exception handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The index of the first operation.
    pub start: usize,
    /// The index after the last operation.
    pub end: usize,
    /// The index of the handler's first operation.
    pub target: usize,
    /// The number of values that stay on the stack.
    pub depth: u32,
    /// True if the raising instruction's offset is pushed.
    pub lasti: bool,
}

/// Code to be assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The CPython version of the bytecode.
    pub version: Version,
    /// The operations in order, without `EXTENDED_ARG`.
    pub operations: Vec<Operation>,
    /// The handlers, ascending and without overlaps.
    pub protected: Vec<Protected>,
}

/// The three byte strings of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// `co_code`
    pub bytecode: Vec<u8>,
    /// `co_exceptiontable`
    pub exception_table: Vec<u8>,
    /// `co_linetable`
    pub line_table: Vec<u8>,
}

impl Assembly {
    /// Converts a decoded code object to operations.
    pub fn of(code: &Code, positions: &Positions) -> Self {
        let index = |unit: u32| code.index.get(unit as usize).map_or(code.instructions.len(), |&at| at as usize);
        let operations = code.instructions.iter().map(|instruction| Operation {
            opcode: instruction.opcode,
            arg: instruction.arg,
            target: instruction.target.map(index),
            position: positions.at(instruction.unit),
        });
        let protected = code.handlers.iter().map(|region| Protected {
            start: index(region.start),
            end: index(region.end),
            target: index(region.handler.target),
            depth: region.handler.depth,
            lasti: region.handler.lasti,
        });
        Self { version: code.version, operations: operations.collect(), protected: protected.collect() }
    }

    /// Returns the bytes for a code object that starts at line `first_line`.
    pub fn assemble(&self, first_line: u32) -> Result<Assembled, AssembleError> {
        let layout = Layout::of(self)?;
        let mut bytecode = Vec::with_capacity(2 * layout.starts[self.operations.len()] as usize);
        for (at, operation) in self.operations.iter().enumerate() {
            let number = table(self.version).number(operation.opcode).ok_or(AssembleError::Opcode(self.version, operation.opcode))?;
            let prefix = table(self.version).number(Opcode::ExtendedArg).unwrap_or_default();
            let [highest, high, low, lowest] = layout.args[at].to_be_bytes();
            for byte in &[highest, high, low][3 - layout.prefixes[at] as usize..] {
                bytecode.extend([prefix, *byte]);
            }
            bytecode.extend([number, lowest]);
            bytecode.resize(2 * layout.starts[at + 1] as usize, 0);
        }
        let mut exception_table = Vec::new();
        for region in &self.protected {
            let place = |at: usize| layout.starts.get(at).copied().ok_or(AssembleError::Index(at));
            let handler = Handler { target: place(region.target)?, depth: region.depth, lasti: region.lasti };
            exceptions::encode(&mut exception_table, place(region.start)?, place(region.end)?, handler);
        }
        let sizes = layout.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        let runs = self.operations.iter().map(|operation| operation.position).zip(sizes);
        let line_table = if self.version.facts().merges_positions {
            let mut merged: Vec<(Position, usize)> = Vec::new();
            for (position, units) in runs {
                match merged.last_mut() {
                    Some((last, total)) if *last == position => *total += units,
                    _ => merged.push((position, units)),
                }
            }
            positions::encode(merged.into_iter(), first_line)
        } else {
            positions::encode(runs, first_line)
        };
        Ok(Assembled { bytecode, exception_table, line_table })
    }
}

/// The position of each operation in the code.
struct Layout {
    /// The first unit of each operation, and the unit after the last.
    starts: Vec<u32>,
    /// The number of `EXTENDED_ARG` prefixes of each operation.
    prefixes: Vec<u32>,
    /// The arguments, including those of jumps.
    args: Vec<u32>,
}

impl Layout {
    /// Computes the layout. Prefixes are added until all distances fit; none is ever removed, so this terminates.
    fn of(assembly: &Assembly) -> Result<Self, AssembleError> {
        let operations = &assembly.operations;
        let args: Vec<u32> = operations.iter().map(|operation| operation.arg).collect();
        let mut layout = Self { starts: vec![0; operations.len() + 1], prefixes: vec![0; operations.len()], args };
        loop {
            layout.place(assembly)?;
            let mut grown = false;
            for (at, operation) in operations.iter().enumerate() {
                layout.args[at] = layout.argument(assembly.version, at, operation)?;
                let needed = (u32::BITS - layout.args[at].leading_zeros()).div_ceil(8).saturating_sub(1);
                if needed > layout.prefixes[at] {
                    layout.prefixes[at] = needed;
                    grown = true;
                }
            }
            if !grown {
                return Ok(layout);
            }
        }
    }

    fn place(&mut self, assembly: &Assembly) -> Result<(), AssembleError> {
        let mut unit: u32 = 0;
        for (at, operation) in assembly.operations.iter().enumerate() {
            let version = assembly.version;
            let caches = operation.opcode.caches(version).ok_or(AssembleError::Opcode(version, operation.opcode))?;
            self.starts[at] = unit;
            unit = unit.checked_add(self.prefixes[at] + 1 + u32::from(caches)).ok_or(AssembleError::TooLong)?;
        }
        self.starts[assembly.operations.len()] = unit;
        Ok(())
    }

    fn argument(&self, version: Version, at: usize, operation: &Operation) -> Result<u32, AssembleError> {
        let next = self.starts[at + 1];
        let target = match operation.target {
            Some(index) if index >= self.prefixes.len() => return Err(AssembleError::Index(index)),
            target => target.map(|index| self.starts[index]),
        };
        let wrong = AssembleError::Direction(at, operation.opcode);
        match (operation.opcode.operand(version), target) {
            (Some(Operand::Forward), Some(target)) => target.checked_sub(next).ok_or(wrong),
            (Some(Operand::Backward), Some(target)) => next.checked_sub(target).ok_or(wrong),
            (Some(Operand::Forward | Operand::Backward), None) | (_, Some(_)) => Err(AssembleError::Target(at, operation.opcode)),
            _ => Ok(operation.arg),
        }
    }
}
