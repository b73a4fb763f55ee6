//! `co_exceptiontable`: the handler of an exception raised at an instruction.

use crate::DecodeError;

/// The handler where an exception continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handler {
    /// The code unit of the handler's first instruction.
    pub target: u32,
    /// The number of values that stay on the stack before the exception is pushed.
    pub depth: u32,
    /// True if the raising instruction's offset is pushed (as a Python int) below the exception.
    pub lasti: bool,
}

/// A run of code units that share a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first unit.
    pub start: u32,
    /// The unit after the last.
    pub end: u32,
    /// The handler of exceptions raised in this region.
    pub handler: Handler,
}

/// Reads the table. Returns an error unless regions are in ascending order and do not overlap.
pub(crate) fn decode(table: &[u8]) -> Result<Vec<Region>, DecodeError> {
    let mut bytes = table.iter();
    let mut regions = Vec::new();
    let mut from = 0;
    while let Some(&first) = bytes.as_slice().first() {
        // Only the first byte of an entry has bit 7: CPython finds entries by it.
        if first & 0x80 == 0 {
            return Err(DecodeError::ExceptionTable);
        }
        let start = number(&mut bytes)?;
        let length = number(&mut bytes)?;
        let target = number(&mut bytes)?;
        let depth_and_lasti = number(&mut bytes)?;
        let end = start.checked_add(length).ok_or(DecodeError::ExceptionTable)?;
        if start < from || length == 0 {
            return Err(DecodeError::ExceptionTable);
        }
        from = end;
        regions.push(Region { start, end, handler: Handler { target, depth: depth_and_lasti >> 1, lasti: depth_and_lasti & 1 == 1 } });
    }
    Ok(regions)
}

/// Reads one number: groups of six bits, the highest first, with bit 6 set on all but the last.
fn number(bytes: &mut std::slice::Iter<'_, u8>) -> Result<u32, DecodeError> {
    let mut value: u32 = 0;
    loop {
        let byte = *bytes.next().ok_or(DecodeError::ExceptionTable)?;
        if value >> 26 != 0 {
            return Err(DecodeError::ExceptionTable);
        }
        value = value << 6 | u32::from(byte & 0x3f);
        if byte & 0x40 == 0 {
            return Ok(value);
        }
    }
}

/// Writes one entry.
pub(crate) fn encode(table: &mut Vec<u8>, start: u32, end: u32, handler: Handler) {
    let first = table.len();
    for value in [start, end.saturating_sub(start), handler.target, handler.depth << 1 | u32::from(handler.lasti)] {
        for shift in [30, 24, 18, 12, 6] {
            if value >> shift != 0 {
                table.push(0x40 | (value >> shift & 0x3f) as u8);
            }
        }
        table.push((value & 0x3f) as u8);
    }
    table[first] |= 0x80;
}
