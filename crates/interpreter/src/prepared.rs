//! What is known of a code object before its first instruction runs: decoded once, kept with the code object.

use std::sync::Arc;

use dynamlir_bytecode::{Code, Instruction, Opcode};
use dynamlir_cpython_abi::{Abi, CodeSlot, code};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString, PyTuple},
};

use crate::{
    ops::Op,
    versions::{self, VersionTable},
};

/// `CO_OPTIMIZED`: locals are slots of the frame, not a mapping.
const OPTIMIZED: u32 = 0x1;
/// `CO_VARKEYWORDS`
const VARKEYWORDS: u32 = 0x8;
/// `CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR`
const GENERATOR: u32 = 0x20 | 0x80 | 0x200;

/// A code object, ready to be evaluated.
pub struct Prepared {
    /// Its instructions and handlers.
    pub code: Code,
    /// What each instruction does, in the running version.
    pub(crate) ops: Vec<Op>,
    /// `co_consts`
    pub(crate) consts: Vec<Py<PyAny>>,
    /// `co_names`
    pub(crate) names: Vec<Py<PyString>>,
    /// The names of the local slots: variables, cells that are not arguments, free variables.
    pub(crate) local_names: Vec<Py<PyString>>,
    /// The first slot of a free variable.
    pub(crate) first_free: usize,
    /// `co_flags`
    pub(crate) flags: u32,
    /// `co_stacksize`
    pub(crate) stack_size: usize,
    /// True if what a generator goes through is asked for its iterator where the generator is made, as generator expressions do in 3.15.
    pub(crate) iterates_first: bool,
    /// The unit from which on tracebacks show the frame (`_co_firsttraceable`): what a generator's code does first is not shown.
    pub(crate) first_shown: u32,
}

impl Prepared {
    /// Whether a call makes a generator, coroutine or asynchronous generator.
    pub fn makes_generator(&self) -> bool {
        self.flags & GENERATOR != 0
    }

    /// Whether there is a `**` parameter, whose dict each call makes.
    pub fn takes_keywords(&self) -> bool {
        self.flags & VARKEYWORDS != 0
    }

    /// Whether locals are slots of the frame; if not, it is the body of a module or class.
    pub fn is_optimized(&self) -> bool {
        self.flags & OPTIMIZED != 0
    }

    /// The names of globals and attributes that the code uses.
    pub fn names(&self) -> impl Iterator<Item = &Py<PyString>> {
        self.names.iter()
    }

    /// The first slot of a free variable.
    pub fn first_free(&self) -> usize {
        self.first_free
    }

    /// The name of a local slot.
    pub fn local_name<'a, 'py>(&'a self, py: Python<'py>, slot: usize) -> Option<&'a Bound<'py, PyString>> {
        self.local_names.get(slot).map(|name| name.bind(py))
    }
}

/// A code object that is ready, or why it is not.
pub(crate) type Preparation = Result<Prepared, String>;

static SLOT: CodeSlot<Preparation> = CodeSlot::new();

/// Looks a code object's preparation up, or makes it.
pub(crate) fn prepare(abi: &'static Abi, table: &VersionTable, code: &Bound<'_, PyAny>) -> Arc<Preparation> {
    if let Some(found) = SLOT.get(abi, code) {
        return found;
    }
    let made = Arc::new(make(abi, table, code));
    SLOT.set(abi, code, made.clone());
    made
}

fn make(abi: &'static Abi, table: &VersionTable, code: &Bound<'_, PyAny>) -> Preparation {
    let parts = Parts::read(abi, code).map_err(|error| format!("unreadable code object: {error}"))?;
    let decoded = Code::decode(table.version, &parts.instructions, &parts.handlers).map_err(|error| error.to_string())?;
    let ops = decoded
        .instructions
        .iter()
        .enumerate()
        .map(|(index, instruction)| op(table, &decoded, index, instruction))
        .collect::<Result<_, _>>()?;
    let preamble = decoded.instructions.iter().take_while(|instruction| instruction.opcode != Opcode::ReturnGenerator);
    let iterates_first = parts.flags & GENERATOR != 0 && preamble.into_iter().any(|instruction| instruction.opcode == Opcode::GetIter);
    let starts = |instruction: &&Instruction| instruction.opcode == Opcode::Resume && instruction.arg == 0;
    let first_shown = decoded.instructions.iter().find(starts).map_or(0, |instruction| instruction.start);
    Ok(Prepared {
        iterates_first,
        first_shown,
        code: decoded,
        ops,
        consts: parts.consts,
        names: parts.names,
        local_names: parts.local_names,
        first_free: parts.first_free,
        flags: parts.flags,
        stack_size: parts.stack_size,
    })
}

/// What an instruction does; an error if this crate does not know, so that CPython evaluates the whole frame.
fn op(table: &VersionTable, code: &Code, index: usize, instruction: &Instruction) -> Result<Op, String> {
    let op = (table.op)(instruction).ok_or_else(|| match versions::detail(instruction) {
        Some(detail) => format!("{} {detail}", instruction.opcode),
        None => instruction.opcode.to_string(),
    })?;
    // A value of an asynchronous generator is wrapped by CPython together with the yield.
    let next = code.instructions.get(index + 1).map(|next| next.opcode);
    if (table.wraps_yield)(instruction) && next != Some(Opcode::YieldValue) {
        return Err(format!("{} without a yield", instruction.opcode));
    }
    Ok(op)
}

/// A code object's attributes.
struct Parts {
    instructions: Vec<u8>,
    handlers: Vec<u8>,
    consts: Vec<Py<PyAny>>,
    names: Vec<Py<PyString>>,
    local_names: Vec<Py<PyString>>,
    first_free: usize,
    flags: u32,
    stack_size: usize,
}

/// The strings of a tuple.
fn strings(tuple: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<PyString>>> {
    tuple.iter().map(|name| Ok(name.cast_into::<PyString>()?.unbind())).collect()
}

impl Parts {
    fn read(abi: &'static Abi, code: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = |name: &str| Ok::<_, PyErr>(code.getattr(name)?.cast_into::<PyBytes>()?.as_bytes().to_vec());
        // `co_varnames` and its like would be computed and kept by the code object.
        let local_names = strings(&code::local_names(abi, code)?)?;
        let first_free = local_names.len() - code::free_count(abi, code)?;
        Ok(Self {
            instructions: bytes("co_code")?,
            handlers: bytes("co_exceptiontable")?,
            consts: code.getattr("co_consts")?.cast_into::<PyTuple>()?.iter().map(Bound::unbind).collect(),
            names: strings(&code.getattr("co_names")?.cast_into::<PyTuple>()?)?,
            local_names,
            first_free,
            flags: code.getattr("co_flags")?.extract()?,
            stack_size: code.getattr("co_stacksize")?.extract()?,
        })
    }
}
