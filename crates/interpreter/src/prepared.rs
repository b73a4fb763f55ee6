//! Facts about a code object that are needed before its first instruction runs: decoded once, kept with the code object.

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
    /// The implementation of each instruction in the running version.
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
    /// True if a generator's iterable is converted to an iterator where the generator is created, as for generator expressions in 3.15.
    pub(crate) iterates_first: bool,
    /// The first unit at which tracebacks show the frame (`_co_firsttraceable`): the initial code of a generator is not shown.
    pub(crate) first_shown: u32,
}

impl Prepared {
    /// Returns true if a call creates a generator, coroutine or asynchronous generator.
    pub fn makes_generator(&self) -> bool {
        self.flags & GENERATOR != 0
    }

    /// Returns true if there is a `**` parameter, for which each call creates a dict.
    pub fn takes_keywords(&self) -> bool {
        self.flags & VARKEYWORDS != 0
    }

    /// Returns true if locals are slots of the frame. If false, the code is the body of a module or class.
    pub fn is_optimized(&self) -> bool {
        self.flags & OPTIMIZED != 0
    }

    /// Returns the names of globals and attributes that the code uses.
    pub fn names(&self) -> impl Iterator<Item = &Py<PyString>> {
        self.names.iter()
    }

    /// Returns the first slot of a free variable.
    pub fn first_free(&self) -> usize {
        self.first_free
    }

    /// Returns the name of a local slot.
    pub fn local_name<'a, 'py>(&'a self, py: Python<'py>, slot: usize) -> Option<&'a Bound<'py, PyString>> {
        self.local_names.get(slot).map(|name| name.bind(py))
    }
}

/// A prepared code object, or the reason why it cannot be evaluated.
pub(crate) type Preparation = Result<Prepared, String>;

static SLOT: CodeSlot<Preparation> = CodeSlot::new();

/// Returns the cached preparation of a code object, or creates it.
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

/// Returns the implementation of an instruction. Returns an error if this crate does not support it; CPython then evaluates the whole
/// frame.
fn op(table: &VersionTable, code: &Code, index: usize, instruction: &Instruction) -> Result<Op, String> {
    let op = (table.op)(instruction).ok_or_else(|| match versions::detail(instruction) {
        Some(detail) => format!("{} {detail}", instruction.opcode),
        None => instruction.opcode.to_string(),
    })?;
    // CPython wraps the value of an asynchronous generator together with the yield.
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

/// Returns the strings of a tuple.
fn strings(tuple: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<PyString>>> {
    tuple.iter().map(|name| Ok(name.cast_into::<PyString>()?.unbind())).collect()
}

impl Parts {
    fn read(abi: &'static Abi, code: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = |name: &str| Ok::<_, PyErr>(code.getattr(name)?.cast_into::<PyBytes>()?.as_bytes().to_vec());
        // Reading `co_varnames` and similar attributes would make the code object compute and cache them.
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
