//! The opcode numbers, inline caches and operand kinds: one table per version, each in its own file.

use crate::{Opcode, Version};

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

/// The meaning of an instruction's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The argument is ignored.
    Nothing,
    /// A number whose meaning is specific to the opcode.
    Number,
    /// An index into `co_consts`.
    Const,
    /// An index into `co_names`; some opcodes have flag bits below it.
    Name,
    /// An index into the frame's locals; from 3.13 on, pair instructions pack two of four bits each.
    Local,
    /// An index into the frame's locals of a slot that holds a cell.
    Free,
    /// A comparison; some versions have flag bits below it.
    Compare,
    /// A jump forward, counted in units from the next instruction.
    Forward,
    /// A jump backward, counted in units from the next instruction.
    Backward,
}

/// One opcode of one version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub opcode: Opcode,
    pub caches: u8,
    pub operand: Operand,
}

/// The opcodes of one version, by number and by name.
pub(crate) struct Table {
    rows: [Option<Row>; 256],
    numbers: [Option<u8>; Opcode::ALL.len()],
}

impl Table {
    /// Builds a table from its rows: number, opcode, inline cache entries, operand.
    const fn new(rows: &[(u8, Opcode, u8, Operand)]) -> Self {
        let mut table = Self { rows: [None; 256], numbers: [None; Opcode::ALL.len()] };
        let mut at = 0;
        while at < rows.len() {
            let (number, opcode, caches, operand) = rows[at];
            table.rows[number as usize] = Some(Row { opcode, caches, operand });
            table.numbers[opcode as usize] = Some(number);
            at += 1;
        }
        table
    }

    /// Returns the row of an opcode number.
    pub fn row(&self, number: u8) -> Option<&Row> {
        self.rows[usize::from(number)].as_ref()
    }

    /// Returns the opcode's number, if the version has it.
    pub fn number(&self, opcode: Opcode) -> Option<u8> {
        self.numbers[opcode as usize]
    }

    /// Returns the opcode's row, if the version has it.
    pub fn of(&self, opcode: Opcode) -> Option<&Row> {
        self.number(opcode).and_then(|number| self.row(number))
    }
}

/// Returns the table of a version.
pub(crate) fn table(version: Version) -> &'static Table {
    match version {
        Version::V3_11 => &v3_11::TABLE,
        Version::V3_12 => &v3_12::TABLE,
        Version::V3_13 => &v3_13::TABLE,
        Version::V3_14 => &v3_14::TABLE,
        Version::V3_15 => &v3_15::TABLE,
    }
}

/// Returns the number of an opcode in a version; `None` if the version does not have it.
pub fn number_of(version: Version, opcode: Opcode) -> Option<u8> {
    table(version).number(opcode)
}

/// Returns the opcode with this number in a version.
pub fn opcode_of(version: Version, number: u8) -> Option<Opcode> {
    table(version).row(number).map(|row| row.opcode)
}

impl Opcode {
    /// Returns the meaning of its argument in a version; `None` if the version does not have it.
    pub fn operand(self, version: Version) -> Option<Operand> {
        table(version).of(self).map(|row| row.operand)
    }

    /// Returns the number of inline cache entries that follow it in a version; `None` if the version does not have it.
    pub fn caches(self, version: Version) -> Option<u8> {
        table(version).of(self).map(|row| row.caches)
    }
}
