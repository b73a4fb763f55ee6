//! Decoding of `co_code` into instructions.

use thiserror::Error;

use crate::{
    Handler, Opcode, Operand, Region, Version, exceptions,
    tables::{Row, table},
};

/// The reasons why bytes cannot be decoded as a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Half a code unit, or more units than 32 bits can count.
    #[error("code of {0} bytes")]
    Length(usize),
    /// A number that is not an opcode of the version, or that occurs only in specialised code.
    #[error("unknown opcode {number} at unit {unit}")]
    Opcode {
        /// The number.
        number: u8,
        /// The unit that has it.
        unit: u32,
    },
    /// The code ends within an instruction.
    #[error("instruction at unit {0} is cut off")]
    Truncated(u32),
    /// An argument of more than 32 bits.
    #[error("argument at unit {0} does not fit 32 bits")]
    Argument(u32),
    /// A jump or an exception handler whose target is not an instruction.
    #[error("unit {from} leads to unit {to}, where no instruction starts")]
    Target {
        /// The unit that jumps, or the first one that the handler covers.
        from: u32,
        /// The unit that it leads to.
        to: i64,
    },
    /// The exception table is cut off, or its entries overlap.
    #[error("malformed exception table")]
    ExceptionTable,
    /// The line table is cut off, or does not cover the code.
    #[error("malformed line table")]
    LineTable,
}

/// One instruction, with everything resolved that does not need the code object's name and constant tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The opcode.
    pub opcode: Opcode,
    /// The complete argument; 0 if the opcode does not take one.
    pub arg: u32,
    /// The code unit of the opcode itself. This is the frame's instruction pointer while the instruction runs.
    pub unit: u32,
    /// The code unit of the first `EXTENDED_ARG`, or [`unit`](Self::unit) if there are no prefixes. Jumps lead here.
    pub start: u32,
    /// The code unit after the inline caches, where the next instruction starts.
    pub next: u32,
    /// The code unit that it jumps to, if it jumps: the [`start`](Self::start) of another instruction.
    pub target: Option<u32>,
}

/// A decoded code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The version of the bytecode.
    pub version: Version,
    /// The instructions in order.
    pub instructions: Vec<Instruction>,
    /// For each code unit, the index of its instruction: the unit may be a prefix, the opcode or a cache entry.
    pub index: Vec<u32>,
    /// The exception table, ascending and without overlaps.
    pub handlers: Vec<Region>,
}

impl Code {
    /// Decodes `code.co_code` (which holds neither specialised nor instrumented forms) and `code.co_exceptiontable`.
    ///
    /// Every jump target and handler of the result is the start of an instruction.
    pub fn decode(version: Version, co_code: &[u8], co_exceptiontable: &[u8]) -> Result<Self, DecodeError> {
        let (units, []) = co_code.as_chunks::<2>() else { return Err(DecodeError::Length(co_code.len())) };
        let count = u32::try_from(units.len()).map_err(|_| DecodeError::Length(co_code.len()))?;
        let mut instructions = Vec::with_capacity(units.len() / 2);
        let mut index = Vec::with_capacity(units.len());
        let mut at = 0;
        while at < count {
            let instruction = instruction(version, units, at)?;
            index.resize(instruction.next as usize, instructions.len() as u32);
            at = instruction.next;
            instructions.push(instruction);
        }
        let code = Self { version, instructions, index, handlers: exceptions::decode(co_exceptiontable)? };
        code.check()?;
        Ok(code)
    }

    /// Checks that jumps and handlers lead to instructions, and that the exception table covers nothing outside the code.
    fn check(&self) -> Result<(), DecodeError> {
        let jumps = self.instructions.iter().filter_map(|instruction| Some((instruction.unit, instruction.target?)));
        let handlers = self.handlers.iter().map(|region| (region.start, region.handler.target));
        for (from, to) in jumps.chain(handlers) {
            if self.instruction_at(to).is_none_or(|instruction| instruction.start != to) {
                return Err(DecodeError::Target { from, to: i64::from(to) });
            }
        }
        match self.handlers.last() {
            Some(region) if region.end as usize > self.index.len() => Err(DecodeError::ExceptionTable),
            _ => Ok(()),
        }
    }

    /// Returns the instruction that contains a code unit.
    pub fn instruction_at(&self, unit: u32) -> Option<&Instruction> {
        self.instructions.get(*self.index.get(unit as usize)? as usize)
    }

    /// Returns the handler of an exception raised at a code unit; `None` if the exception leaves the frame.
    pub fn handler_for(&self, unit: u32) -> Option<Handler> {
        let after = self.handlers.partition_point(|region| region.start <= unit);
        let region = self.handlers.get(after.checked_sub(1)?)?;
        (unit < region.end).then_some(region.handler)
    }
}

/// Decodes the instruction whose first unit is `start`.
fn instruction(version: Version, units: &[[u8; 2]], start: u32) -> Result<Instruction, DecodeError> {
    let mut unit = start;
    let mut arg: u32 = 0;
    let row = loop {
        let &[number, low] = units.get(unit as usize).ok_or(DecodeError::Truncated(start))?;
        let row = table(version).row(number).ok_or(DecodeError::Opcode { number, unit })?;
        if arg >> 24 != 0 {
            return Err(DecodeError::Argument(start));
        }
        arg = arg << 8 | u32::from(low);
        if row.opcode != Opcode::ExtendedArg {
            break row;
        }
        unit += 1;
    };
    let next = unit + 1 + u32::from(row.caches);
    if next as usize > units.len() {
        return Err(DecodeError::Truncated(start));
    }
    let target = target(row, unit, next, arg)?;
    Ok(Instruction { opcode: row.opcode, arg, unit, start, next, target })
}

/// Returns the unit that an instruction jumps to. Jumps are relative to the unit after the caches.
fn target(row: &Row, unit: u32, next: u32, arg: u32) -> Result<Option<u32>, DecodeError> {
    let to = match row.operand {
        Operand::Forward => i64::from(next) + i64::from(arg),
        Operand::Backward => i64::from(next) - i64::from(arg),
        _ => return Ok(None),
    };
    u32::try_from(to).map(Some).map_err(|_| DecodeError::Target { from: unit, to })
}
