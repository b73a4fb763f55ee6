//! `co_linetable`: the source positions of code units (PEP 626 and 657), read and written.

use crate::DecodeError;

/// The source position of a code unit. Columns count bytes from 0; ends are exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The first line.
    pub line: Option<u32>,
    /// The last line.
    pub end_line: Option<u32>,
    /// The column in the first line.
    pub column: Option<u32>,
    /// The column after the last character, in the last line.
    pub end_column: Option<u32>,
}

/// The positions of all code units, one per unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions(pub Vec<Position>);

// The kinds of entries, in bits 3 to 6 of their first byte. Kinds below these mean "one byte holds both columns".
const ONE_LINE: u8 = 10;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NONE: u8 = 15;

/// The maximum number of units that an entry covers.
const UNITS: usize = 8;

impl Positions {
    /// Reads a table that covers `units` code units of a code object that starts at `first_line`.
    pub fn decode(table: &[u8], first_line: u32, units: usize) -> Result<Self, DecodeError> {
        let mut positions = Vec::with_capacity(units);
        for run in runs(table, first_line) {
            let (position, units) = run?;
            positions.extend(std::iter::repeat_n(position, units as usize));
        }
        if positions.len() == units { Ok(Self(positions)) } else { Err(DecodeError::LineTable) }
    }

    /// Returns the position of a unit; an unknown position for a unit outside the code.
    pub fn at(&self, unit: u32) -> Position {
        self.0.get(unit as usize).copied().unwrap_or_default()
    }

    /// Returns the line of a unit.
    pub fn line(&self, unit: u32) -> Option<u32> {
        self.at(unit).line
    }
}

/// Reads the entries of a table one by one: each a position, and the number of units that share it.
pub fn runs(table: &[u8], first_line: u32) -> impl Iterator<Item = Result<(Position, u32), DecodeError>> {
    let mut reader = Reader(table.iter());
    let mut line = i64::from(first_line);
    std::iter::from_fn(move || {
        let head = reader.0.next().copied()?;
        if head & 0x80 == 0 {
            return Some(Err(DecodeError::LineTable));
        }
        let position = reader.position(head >> 3 & 15, &mut line);
        Some(position.map(|position| (position, u32::from(head & 7) + 1)))
    })
}

/// Writes the table for runs of units that share a position, as CPython's compiler does.
pub(crate) fn encode(runs: impl Iterator<Item = (Position, usize)>, first_line: u32) -> Vec<u8> {
    let mut table = Vec::new();
    let mut line = i64::from(first_line);
    for (position, mut units) in runs {
        while units > 0 {
            let length = units.min(UNITS);
            entry(&mut table, position, length, &mut line);
            units -= length;
        }
    }
    table
}

/// Writes one entry. `line` is the line reached by the entries so far.
fn entry(table: &mut Vec<u8>, position: Position, units: usize, line: &mut i64) {
    let head = |kind: u8| 0x80 | kind << 3 | (units as u8 - 1);
    let Some(first) = position.line.map(i64::from) else { return table.push(head(NONE)) };
    let delta = first - *line;
    let last = position.end_line.map_or(first, i64::from);
    *line = first;
    match (position.column, position.end_column) {
        (Some(column), Some(end)) if last == first && delta == 0 && column < 80 && end >= column && end - column < 16 => {
            table.extend([head((column >> 3) as u8), ((column & 7) << 4 | (end - column)) as u8]);
        }
        (Some(column), Some(end)) if last == first && (0..3).contains(&delta) && column < 128 && end < 128 => {
            table.extend([head(ONE_LINE + delta as u8), column as u8, end as u8]);
        }
        (None, _) | (_, None) if last == first => {
            table.push(head(NO_COLUMNS));
            signed(table, delta);
        }
        (column, end) => {
            table.push(head(LONG));
            signed(table, delta);
            // Compilers never emit a last line before the first; the format cannot represent it.
            varint(table, (last - first).max(0) as u64);
            varint(table, column.map_or(0, |column| u64::from(column) + 1));
            varint(table, end.map_or(0, |end| u64::from(end) + 1));
        }
    }
}

/// Writes groups of six bits, the lowest first, with bit 6 set on all but the last.
fn varint(table: &mut Vec<u8>, mut value: u64) {
    while value >= 64 {
        table.push(0x40 | (value & 63) as u8);
        value >>= 6;
    }
    table.push(value as u8);
}

/// Writes a signed number, with the sign in the lowest bit.
fn signed(table: &mut Vec<u8>, value: i64) {
    varint(table, value.unsigned_abs() << 1 | u64::from(value < 0));
}

struct Reader<'a>(std::slice::Iter<'a, u8>);

impl Reader<'_> {
    /// Reads the rest of an entry of this kind and updates `line`.
    fn position(&mut self, kind: u8, line: &mut i64) -> Result<Position, DecodeError> {
        let mut lines = 0;
        let (column, end_column) = match kind {
            NONE => return Ok(Position::default()),
            LONG => {
                *line += self.signed()?;
                lines = self.varint()?;
                // Columns are stored plus one; zero means "unknown".
                (self.varint()?.checked_sub(1), self.varint()?.checked_sub(1))
            }
            NO_COLUMNS => {
                *line += self.signed()?;
                (None, None)
            }
            ONE_LINE..NO_COLUMNS => {
                *line += i64::from(kind - ONE_LINE);
                (Some(u32::from(self.byte()?)), Some(u32::from(self.byte()?)))
            }
            _ => {
                let byte = u32::from(self.byte()?);
                let column = u32::from(kind) << 3 | byte >> 4 & 7;
                (Some(column), Some(column + (byte & 15)))
            }
        };
        let line = u32::try_from(*line).map_err(|_| DecodeError::LineTable)?;
        let end_line = line.checked_add(lines).ok_or(DecodeError::LineTable)?;
        Ok(Position { line: Some(line), end_line: Some(end_line), column, end_column })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.0.next().copied().ok_or(DecodeError::LineTable)
    }

    fn varint(&mut self) -> Result<u32, DecodeError> {
        let mut value: u64 = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 63) << shift;
            shift += 6;
            if byte & 0x40 == 0 {
                return u32::try_from(value).map_err(|_| DecodeError::LineTable);
            }
            if shift > 30 {
                return Err(DecodeError::LineTable);
            }
        }
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = i64::from(self.varint()?);
        Ok(if value & 1 == 1 { -(value >> 1) } else { value >> 1 })
    }
}
