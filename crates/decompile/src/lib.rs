//! Converts a code object back to Python source.
//!
//! ```text
//! instructions ─ graph: one step per node, regions of the exception table, each case of a `match` in one step (lift, graph,
//!                regions, patterns)
//!              ─ merge: copies made by the compiler are merged (merge); exits of `with` and `finally` become one step (unwind)
//!              ─ blocks, in which `and`, `or`, conditional expressions, chained comparisons and comprehensions become
//!                expressions (blocks, reduce)
//!              ─ statements: dominators determine where branches meet, loops and regions nest (structure, loops, tries),
//!                a stack of expressions determines the computed values (machine)
//!              ─ tidied: cases, annotations, code that the compiler adds (cases, annotations, tidy), and printed (print)
//! ```
//!
//! Every step preserves the meaning or gives up. Code that cannot be decompiled is printed as a commented disassembly with the reason; such
//! a function raises when it is called, so that nothing silently behaves differently.
#![forbid(unsafe_code)]

mod annotations;
mod ast;
mod blocks;
mod body;
mod cases;
mod comprehend;
mod displays;
mod functions;
mod generics;
mod graph;
mod imports;
mod lift;
mod loops;
mod machine;
mod merge;
mod names;
mod op;
mod patterns;
mod print;
mod reduce;
mod regions;
mod scopes;
mod stores;
mod structure;
mod tidy;
mod tries;
mod unwind;
mod walk;

use dynamlir_bytecode::{CodeObject, flags};
use thiserror::Error;

use crate::{body::Scoped, print::Printer};

/// The reasons why a code object is left as disassembly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The bytes are not valid code.
    #[error("malformed code")]
    Malformed,
    /// An exception handler of a kind that no compiler produces.
    #[error("unknown exception handler at unit {0}")]
    Handler(u32),
    /// An unsupported instruction.
    #[error("{0} is not understood")]
    Opcode(&'static str),
    /// Control flow that does not correspond to any statement.
    #[error("{0} at unit {1}")]
    Unstructured(&'static str, u32),
    /// Values on the stack that do not correspond to any expression.
    #[error("{0}")]
    Stack(&'static str),
}

/// A code object as source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decompiled {
    /// The source.
    pub text: String,
    /// The code left as disassembly: the code object's qualified name and the reason. Empty if everything was decompiled.
    pub unknown: Vec<String>,
}

/// Decompiles a code object.
///
/// A function becomes a `def` (its defaults and annotations are not part of its code), a class body a `class`, a lambda an
/// expression, a module its statements.
pub fn decompile(code: &CodeObject) -> Decompiled {
    let scoped = scope(code);
    let mut printer = Printer::new(code.version);
    let written = body::statements(code, scoped).map_err(|problem| problem.to_string()).and_then(|mut statements| {
        let own: Vec<&str> = match scoped {
            Scoped::Function => code.varnames.iter().chain(&code.cellvars).chain(&code.freevars).map(String::as_str).collect(),
            _ => Vec::new(),
        };
        scopes::declare(&mut statements, &own);
        printer.whole(code, scoped, &statements);
        printer.problem.take().map_or(Ok(()), Err)
    });
    if let Err(problem) = written {
        printer = Printer::new(code.version);
        printer.whole_unknown(code, scoped, &problem);
    }
    let (text, unknown) = printer.finish();
    Decompiled { text, unknown }
}

fn scope(code: &CodeObject) -> Scoped {
    if code.name == "<lambda>" {
        Scoped::Lambda
    } else if code.has(flags::OPTIMIZED) {
        Scoped::Function
    } else if code.name == "<module>" {
        Scoped::Module
    } else {
        Scoped::Class
    }
}
