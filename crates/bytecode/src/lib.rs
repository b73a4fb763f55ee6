//! CPython's code objects, for 3.11 to 3.15, without Python.
//!
//! [`Code::decode`] turns `code.co_code` and `code.co_exceptiontable` into [`Instruction`]s with complete operands (`EXTENDED_ARG` folded
//! in) and resolved jump targets. Each version has its own table in `tables/`, generated from the interpreter itself. An opcode of the same
//! name may still mean something else in another version; it is the reader's task to check [`Code::version`].
//!
//! The unit of all positions is the *code unit* of two bytes, as in CPython's tables; `dis` shows twice that number.
#![forbid(unsafe_code)]

mod assemble;
mod code;
mod disassemble;
mod effects;
mod equivalence;
mod exceptions;
mod facts;
mod flow;
mod liveness;
mod object;
mod opcode;
mod positions;
pub mod repr;
mod resume;
mod tables;
mod version;
mod write;

pub use assemble::{AssembleError, Assembled, Assembly, Operation, Protected};
pub use code::{Code, DecodeError, Instruction};
pub use disassemble::{COMPARISONS, OPERATORS, SPECIAL_METHODS, SUBSCRIPT, comparison, disassemble, name_index, wants_bool};
pub use effects::stack_effect;
pub use equivalence::{Difference, equivalent};
pub use exceptions::{Handler, Region};
pub use facts::Facts;
pub use flow::{Block, Dominators, Edge, EdgeKind, Flow, StackDepths, StackError, ends_flow};
pub use liveness::Liveness;
pub use object::{CodeObject, Const, flags};
pub use opcode::Opcode;
pub use positions::{Position, Positions, runs};
pub use resume::{Place, ResumeError, resume};
pub use tables::{Operand, number_of, opcode_of};
pub use version::Version;
pub use write::{Expr, Statement, WriteError, write};
