//! A frame under evaluation: its stack, the sources of its locals, its position.

use std::{cell::Cell, rc::Rc, sync::Arc};

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::{Frame, Thread};
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::{
    SourceId, Value,
    evaluator::Evaluator,
    policy::{Outcome, Policy, Unwind, escape_each},
    prepared::{Preparation, Prepared},
};

/// The position of a frame; shared, so that a policy can determine the position of an operation.
pub struct Site {
    preparation: Arc<Preparation>,
    code: Py<PyAny>,
    unit: Cell<u32>,
    outer: Option<Rc<Site>>,
}

impl Site {
    /// Returns the code object.
    pub fn code<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.code.bind(py)
    }

    /// Returns the decoded form of the code object.
    pub fn prepared(&self) -> &Prepared {
        match self.preparation.as_ref() {
            Ok(prepared) => prepared,
            Err(_) => unreachable!("frames of code that is not ready are left to CPython"),
        }
    }

    /// Returns the code unit of the running instruction.
    pub fn unit(&self) -> u32 {
        self.unit.get()
    }

    /// Returns the interpreted frame that was running when this one started, under the same evaluation.
    pub fn outer(&self) -> Option<&Rc<Site>> {
        self.outer.as_ref()
    }
}

/// The source of a local, with the object that it belongs to: other code may change a local while the frame runs.
#[derive(Clone, Copy)]
struct LocalSource {
    object: *const (),
    source: SourceId,
}

/// A frame under evaluation.
pub struct Activation<'py> {
    pub(crate) frame: Frame<'py>,
    pub(crate) thread: Thread<'py>,
    pub(crate) place: Rc<Site>,
    pub(crate) evaluator: Rc<Evaluator>,
    pub(crate) stack: Vec<Value<'py>>,
    /// The names of the keyword arguments of the call that follows.
    pub(crate) keywords: Option<Bound<'py, PyTuple>>,
    /// The sources of locals; empty until one has a source.
    sources: Vec<Option<LocalSource>>,
}

impl<'py> Activation<'py> {
    pub(crate) fn new(frame: Frame<'py>, code: &Bound<'py, PyAny>, preparation: Arc<Preparation>, evaluator: Rc<Evaluator>) -> Self {
        let place =
            Rc::new(Site { preparation, code: code.clone().unbind(), unit: Cell::new(frame.next_unit()), outer: evaluator.place() });
        let mut stack = Vec::with_capacity(place.prepared().stack_size);
        stack.extend(frame.take_stack().map(|object| Value { object, source: SourceId::NONE }));
        Self { thread: frame.thread(), frame, place, evaluator, stack, keywords: None, sources: Vec::new() }
    }

    /// Replaces the index of each loop that CPython's own evaluation runs by index with an iterator that continues at the same item. Loops
    /// in this crate always use an iterator.
    pub(crate) fn restore_iterators(&mut self) -> Outcome<()> {
        if !self.evaluator.abi.loops_by_index() {
            return Ok(());
        }
        for at in 1..self.stack.len() {
            if !self.stack[at - 1].is_null()
                && !self.stack[at].is_null()
                && let Some(iterator) = self.policy().iter_from(&self.stack[at - 1], &self.stack[at])?
            {
                (self.stack[at - 1], self.stack[at]) = (iterator, Value::NULL);
            }
        }
        Ok(())
    }

    /// Returns the GIL token.
    pub fn py(&self) -> Python<'py> {
        self.frame.py()
    }

    pub(crate) fn policy(&self) -> &dyn Policy {
        &*self.evaluator.policy
    }

    /// Returns the decoded form of the code object.
    pub fn prepared(&self) -> &Prepared {
        self.place.prepared()
    }

    /// Returns the frame's position.
    pub fn place(&self) -> &Rc<Site> {
        &self.place
    }

    /// Returns the code object.
    pub fn code(&self) -> &Bound<'py, PyAny> {
        self.place.code(self.py())
    }

    /// Returns the function, unless the code runs without one.
    pub fn function(&self) -> Option<Bound<'py, PyAny>> {
        self.frame.function()
    }

    /// Returns the globals: a dict.
    pub fn globals(&self) -> Bound<'py, PyAny> {
        self.frame.globals().expect("a frame has globals")
    }

    /// Returns the builtins.
    pub fn builtins(&self) -> Bound<'py, PyAny> {
        self.frame.builtins().expect("a frame has builtins")
    }

    /// Returns the namespace of a module's or class's body.
    pub fn namespace(&self) -> Option<Bound<'py, PyAny>> {
        self.frame.namespace()
    }

    /// Returns the number of local slots.
    pub fn locals_count(&self) -> usize {
        self.frame.locals_count()
    }

    /// Returns the local in a slot, with its source; NULL if it is not bound.
    pub fn local(&self, slot: usize) -> Value<'py> {
        let object = self.frame.local(slot);
        let source = match (self.sources.get(slot), &object) {
            (Some(Some(known)), Some(object)) if known.object == object.as_ptr().cast() => known.source,
            _ => SourceId::NONE,
        };
        Value { object, source }
    }

    /// Sets the source of the local in a slot.
    pub fn set_local_source(&mut self, slot: usize, source: SourceId) {
        let object = self.frame.local(slot);
        self.note_source(slot, object.map_or(std::ptr::null(), |object| object.as_ptr().cast_const().cast()), source);
    }

    fn note_source(&mut self, slot: usize, object: *const (), source: SourceId) {
        if source.is_some() && self.sources.is_empty() {
            self.sources.resize(self.frame.locals_count(), None);
        }
        if let Some(known) = self.sources.get_mut(slot) {
            *known = source.is_some().then_some(LocalSource { object, source });
        }
    }

    /// Replaces an argument with another object before the frame has run.
    pub fn replace_local(&mut self, slot: usize, value: Value<'py>) {
        drop(self.set_local(slot, value));
    }

    /// Binds a local and returns its old value, for the caller to drop afterwards.
    pub(crate) fn set_local(&mut self, slot: usize, value: Value<'py>) -> Option<Bound<'py, PyAny>> {
        let object = value.object.as_ref().map_or(std::ptr::null(), |object| object.as_ptr().cast_const().cast());
        self.note_source(slot, object, value.source);
        self.frame.replace_local(slot, value.object)
    }

    /// Moves the frame to another unit, with these locals and this stack. The old values are dropped afterwards.
    pub fn fill(&mut self, unit: u32, locals: Vec<Value<'py>>, stack: Vec<Value<'py>>) {
        let mut former: Vec<_> = locals.into_iter().enumerate().map(|(slot, local)| self.set_local(slot, local)).collect();
        former.extend(std::mem::replace(&mut self.stack, stack).into_iter().map(|value| value.object));
        self.frame.set_next_unit(unit);
        self.place.unit.set(unit);
        self.keywords = None;
        drop(former);
    }

    /// Drops all values in the local slots.
    pub(crate) fn clear_locals(&mut self) {
        let former: Vec<_> = (0..self.locals_count()).map(|slot| self.frame.replace_local(slot, None)).collect();
        drop(former);
    }

    /// Returns true if an instruction has begun a call that later instructions complete.
    pub fn is_within_call(&self) -> bool {
        self.keywords.is_some()
    }

    /// Returns the value stack, lowest value first.
    pub fn stack(&self) -> &[Value<'py>] {
        &self.stack
    }

    pub(crate) fn push(&mut self, value: impl Into<Value<'py>>) {
        self.stack.push(value.into());
    }

    pub(crate) fn pop(&mut self) -> Value<'py> {
        self.stack.pop().expect("bytecode pops from an empty stack")
    }

    /// Returns the value `depth` below the top; 0 is the top.
    pub(crate) fn peek(&self, depth: usize) -> &Value<'py> {
        &self.stack[self.stack.len() - 1 - depth]
    }

    /// Returns the topmost `count` values, lowest first.
    pub fn top(&self, count: usize) -> &[Value<'py>] {
        &self.stack[self.stack.len() - count..]
    }

    /// Drops the topmost `count` values, lowest first.
    pub(crate) fn drop_top(&mut self, count: usize) {
        let left = self.stack.len() - count;
        self.stack.drain(left..);
    }

    /// Replaces the topmost `count` values.
    pub(crate) fn replace_top(&mut self, count: usize, value: impl Into<Value<'py>>) {
        self.drop_top(count);
        self.push(value);
    }

    /// Returns the name at an index of the code's names.
    pub fn name(&self, index: u32) -> Bound<'py, PyString> {
        self.prepared().names[index as usize].bind(self.py()).clone()
    }

    pub(crate) fn constant(&self, index: u32) -> Bound<'py, PyAny> {
        self.prepared().consts[index as usize].bind(self.py()).clone()
    }

    pub(crate) fn set_unit(&self, instruction: &Instruction) {
        self.place.unit.set(instruction.unit);
        self.frame.set_unit(instruction.unit);
    }

    /// Handles pending work, as at a backward jump: signals, the garbage collector, other threads.
    pub(crate) fn check_interrupts(&self) -> Outcome<()> {
        if self.thread.is_interrupted().unwrap_or_else(|| self.evaluator.is_due()) {
            self.evaluator.checkpoint(self.thread).map_err(|error| self.policy().interrupted(self.py(), error))?;
        }
        Ok(())
    }

    /// Called before the frame suspends: the values on the stack and in the locals lose their sources.
    pub(crate) fn escape_all(&self) -> Outcome<()> {
        escape_each(self.policy(), &self.stack)?;
        if self.sources.is_empty() {
            return Ok(());
        }
        let locals: Vec<Value<'py>> = (0..self.locals_count()).map(|slot| self.local(slot)).collect();
        escape_each(self.policy(), &locals)
    }

    /// Returns the exception of an instruction whose local is not bound.
    pub(crate) fn unbound(&self, slot: usize) -> Unwind {
        let prepared = self.prepared();
        let name = prepared.local_name(self.py(), slot);
        crate::concrete::unbound(self.py(), name, slot >= prepared.first_free)
    }
}
