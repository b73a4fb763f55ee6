//! A code object as plain data: the values of the `co_…` attributes.

use crate::{Code, DecodeError, Positions, Version};

/// A constant of a code object.
#[derive(Clone, Debug, PartialEq)]
pub enum Const {
    /// `None`
    None,
    /// `...`
    Ellipsis,
    /// `True` or `False`
    Bool(bool),
    /// An int of any size, in decimal.
    Int(String),
    /// A float, compared as in Rust: NaN differs from itself.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
    /// A string.
    Str(String),
    /// A string with lone surrogates, by code points.
    WideStr(Vec<u32>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A frozenset, in its order of iteration.
    FrozenSet(Vec<Self>),
    /// A slice of constants (from 3.14 on): start, stop, step.
    Slice(Box<[Self; 3]>),
    /// A nested code object.
    Code(Box<CodeObject>),
    /// An object that no compiler puts there, as its `repr`.
    Other(String),
}

/// A code object's attributes, named after `co_…`.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeObject {
    /// The version of the bytecode.
    pub version: Version,
    /// `co_name`
    pub name: String,
    /// `co_qualname`
    pub qualname: String,
    /// `co_filename`
    pub filename: String,
    /// `co_firstlineno`
    pub first_line: u32,
    /// `co_flags`
    pub flags: u32,
    /// `co_argcount`: positional parameters, positional-only ones included.
    pub arg_count: u32,
    /// `co_posonlyargcount`
    pub positional_only: u32,
    /// `co_kwonlyargcount`
    pub keyword_only: u32,
    /// `co_stacksize`
    pub stack_size: u32,
    /// `co_code`
    pub bytecode: Vec<u8>,
    /// `co_exceptiontable`
    pub exception_table: Vec<u8>,
    /// `co_linetable`
    pub line_table: Vec<u8>,
    /// `co_consts`
    pub consts: Vec<Const>,
    /// `co_names`
    pub names: Vec<String>,
    /// `co_varnames`
    pub varnames: Vec<String>,
    /// `co_cellvars`
    pub cellvars: Vec<String>,
    /// `co_freevars`
    pub freevars: Vec<String>,
}

/// Bits of `co_flags`.
pub mod flags {
    /// Locals are in slots, not in a dictionary.
    pub const OPTIMIZED: u32 = 0x1;
    /// A call creates a new namespace.
    pub const NEWLOCALS: u32 = 0x2;
    /// Has `*args`.
    pub const VARARGS: u32 = 0x4;
    /// Has `**kwargs`.
    pub const VARKEYWORDS: u32 = 0x8;
    /// Is a generator.
    pub const GENERATOR: u32 = 0x20;
    /// Is an `async def` without `yield`.
    pub const COROUTINE: u32 = 0x80;
    /// Is a generator made awaitable by `types.coroutine`.
    pub const ITERABLE_COROUTINE: u32 = 0x100;
    /// Is an `async def` with `yield`.
    pub const ASYNC_GENERATOR: u32 = 0x200;
    /// From 3.13 on: the first constant is a docstring.
    pub const DOCSTRING: u32 = 0x0400_0000;
    /// Was compiled under `from __future__ import annotations`.
    pub const FUTURE_ANNOTATIONS: u32 = 0x0100_0000;
}

impl CodeObject {
    /// Decodes the instructions.
    pub fn decode(&self) -> Result<Code, DecodeError> {
        Code::decode(self.version, &self.bytecode, &self.exception_table)
    }

    /// Decodes the source positions of the code units.
    pub fn positions(&self) -> Result<Positions, DecodeError> {
        Positions::decode(&self.line_table, self.first_line, self.bytecode.len() / 2)
    }

    /// Returns the docstring of a function. Before 3.14 no flag marks every function with a docstring, but the first constant of a function
    /// without one is None.
    pub fn docstring(&self) -> Option<&Const> {
        let may_have = self.has(if self.version >= Version::V3_14 { flags::DOCSTRING } else { flags::OPTIMIZED });
        self.consts.first().filter(|first| may_have && matches!(first, Const::Str(_) | Const::WideStr(_)))
    }

    /// Returns true if a bit of [`flags`] is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number of locals that are parameters, including `*args` and `**kwargs`.
    pub fn parameter_count(&self) -> usize {
        (self.arg_count + self.keyword_only) as usize + usize::from(self.has(flags::VARARGS)) + usize::from(self.has(flags::VARKEYWORDS))
    }

    /// Returns the names of the frame's slots: locals, then cells that are not locals, then free variables.
    pub fn slots(&self) -> Vec<&str> {
        let cells = self.cellvars.iter().filter(|name| !self.varnames.contains(name));
        self.varnames.iter().chain(cells).chain(&self.freevars).map(String::as_str).collect()
    }
}
