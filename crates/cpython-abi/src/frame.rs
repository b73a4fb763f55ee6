//! A frame that is waiting to be evaluated, or is being evaluated.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr::NonNull,
};

use pyo3::{ffi, prelude::*};

use crate::{
    Abi, Thread,
    layout::{InstructionPointer, Leaving, References},
    reference,
};

/// Returns the unit that an object on the value stack represents: see [`Frame::unit_object`].
///
/// # Errors
/// If it does not represent a unit.
pub fn unit_of(object: &Bound<'_, PyAny>) -> PyResult<i32> {
    reference::unit_of(object)
}

/// Returns an iterator that continues a loop of CPython's own evaluation, which uses an index instead of an iterator (3.15). The arguments
/// are adjacent values on the value stack; `None` if they are not such a loop.
///
/// # Errors
/// If Python is out of memory.
pub fn loop_iterator<'py>(object: &Bound<'py, PyAny>, above: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    reference::loop_iterator(object, above)
}

/// The owner of a frame's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The thread's frame stack: a call.
    Thread,
    /// A generator, coroutine or asynchronous generator.
    Generator,
}

/// The result of a frame. Only the methods that end a [`Frame`]'s evaluation create one.
#[must_use]
pub struct Evaluated<'py> {
    /// The hook's return value: a new reference, or NULL with the exception set.
    pub(crate) raw: *mut ffi::PyObject,
    _py: PhantomData<Python<'py>>,
}

impl Evaluated<'_> {
    pub(crate) fn of(raw: *mut ffi::PyObject) -> Self {
        Self { raw, _py: PhantomData }
    }

    /// Returns true if the frame ended by an exception.
    pub fn is_error(&self) -> bool {
        self.raw.is_null()
    }
}

/// A `_PyInterpreterFrame` that CPython passed to the hook.
///
/// The frame is borrowed from CPython until one of the consuming methods ends its evaluation. While this value lives, no other code
/// evaluates the frame, so its locals and its instruction pointer are ours to change.
pub struct Frame<'py> {
    raw: NonNull<c_void>,
    thread: Thread<'py>,
    abi: &'static Abi,
    /// The address of the frame's first instruction.
    instructions: NonNull<[u8; 2]>,
    locals_count: usize,
    /// Set to report to the hook that the evaluation has ended.
    ended: &'py Cell<bool>,
}

impl<'py> Frame<'py> {
    /// # Safety
    /// `raw` must be a frame that CPython passed to the hook of `thread` and that is not yet evaluated, and its version must be `abi`'s.
    pub(crate) unsafe fn new(raw: NonNull<c_void>, thread: Thread<'py>, abi: &'static Abi, ended: &'py Cell<bool>) -> Self {
        let layout = abi.layout;
        // SAFETY: a frame holds its code object, which outlives the frame's evaluation; the offsets are those of its version.
        let (instructions, locals_count) = unsafe {
            let word = raw.byte_add(layout.frame.code).cast::<usize>().read();
            let code = NonNull::new_unchecked(layout.frame.references.address(word) as *mut c_void);
            // The instructions are the last member of the code object.
            (code.byte_add(layout.code.instructions).cast(), code.byte_add(layout.code.locals_count).cast::<c_int>().read())
        };
        Self { raw, thread, abi, instructions, locals_count: locals_count as usize, ended }
    }

    /// Returns the thread that evaluates the frame.
    pub fn thread(&self) -> Thread<'py> {
        self.thread
    }

    /// Returns the `_PyInterpreterFrame *`, for CPython functions that borrow it.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// Returns the GIL token.
    pub fn py(&self) -> Python<'py> {
        self.thread.py()
    }

    fn field<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: the offsets come from the layout table and are within the frame.
        unsafe { self.raw.byte_add(offset) }.cast()
    }

    fn object_at(&self, offset: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the layout says that an object, or NULL, is there; the frame keeps it alive, and we take a reference.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.py(), self.field::<*mut ffi::PyObject>(offset).read()) }
    }

    fn references(&self) -> References {
        self.abi.layout.frame.references
    }

    /// Like `object_at`, for references in the format of the value stack.
    fn reference_at(&self, offset: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the layout says that such a word is there; the frame keeps the object alive.
        unsafe { self.references().get(self.py(), self.field::<usize>(offset).read()) }
    }

    /// Returns the code object. A new reference.
    pub fn code(&self) -> Option<Bound<'py, PyAny>> {
        self.reference_at(self.abi.layout.frame.code)
    }

    /// Returns the address of the code object, without a reference.
    pub fn code_address(&self) -> *const c_void {
        // SAFETY: as in `object_at`; nothing is dereferenced.
        let word = unsafe { self.field::<usize>(self.abi.layout.frame.code).read() };
        self.references().address(word) as *const c_void
    }

    /// Returns the function. A new reference.
    pub fn function(&self) -> Option<Bound<'py, PyAny>> {
        self.reference_at(self.abi.layout.frame.function)
    }

    /// Returns the globals: a dict. A new reference.
    pub fn globals(&self) -> Option<Bound<'py, PyAny>> {
        self.object_at(self.abi.layout.frame.globals)
    }

    /// Returns the builtins: a mapping. A new reference.
    pub fn builtins(&self) -> Option<Bound<'py, PyAny>> {
        self.object_at(self.abi.layout.frame.builtins)
    }

    /// Returns the namespace of a module's or class's body. A new reference.
    pub fn namespace(&self) -> Option<Bound<'py, PyAny>> {
        self.object_at(self.abi.layout.frame.locals)
    }

    /// Returns the frame object, if it has been created. A new reference.
    pub fn object(&self) -> Option<Bound<'py, PyAny>> {
        self.object_at(self.abi.layout.frame.object)
    }

    /// Returns true if a frame object has been created: other code may then read the locals, and on 3.13 change them.
    pub fn has_object(&self) -> bool {
        // SAFETY: as in `object_at`.
        !unsafe { self.field::<*mut ffi::PyObject>(self.abi.layout.frame.object).read() }.is_null()
    }

    /// Returns the owner of the frame.
    pub fn owner(&self) -> Owner {
        // SAFETY: the layout says that a char is there.
        match unsafe { self.field::<u8>(self.abi.layout.frame.owner).read() } {
            1 => Owner::Generator,
            _ => Owner::Thread,
        }
    }

    /// Returns the number of local slots: arguments, variables, cells and free variables.
    pub fn locals_count(&self) -> usize {
        self.locals_count
    }

    fn slot(&self, index: usize) -> NonNull<usize> {
        self.field::<usize>(self.abi.layout.frame.localsplus + index * size_of::<usize>())
    }

    fn local_slot(&self, index: usize) -> NonNull<usize> {
        assert!(index < self.locals_count, "local {index} of {}", self.locals_count);
        self.slot(index)
    }

    /// Returns the local in a slot, if it is bound. A new reference.
    pub fn local(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the slot is one of the frame's locals, which keep what they refer to alive.
        unsafe { self.references().get(self.py(), self.local_slot(index).read()) }
    }

    /// Stores a local in its slot and returns the old value, so that it is dropped after the slot has its new content.
    pub fn replace_local(&self, index: usize, value: Option<Bound<'py, PyAny>>) -> Option<Bound<'py, PyAny>> {
        let new = self.references().give(value);
        // SAFETY: as in `local`; the slot takes ownership of our reference and we take the slot's.
        unsafe { self.references().take(self.py(), self.local_slot(index).replace(new)) }
    }

    fn pointer(&self) -> NonNull<NonNull<[u8; 2]>> {
        self.field(self.abi.layout.frame.instruction)
    }

    /// Returns the instruction pointer in units from the start; -1 before the start.
    fn offset(&self) -> isize {
        // SAFETY: the pointer points into the code's instructions, or one unit before them.
        unsafe { self.pointer().read().offset_from(self.instructions) }
    }

    fn set_offset(&self, offset: isize) {
        // SAFETY: callers pass units of this code, or one less; the frame's pointer is ours while it is evaluated.
        unsafe { self.pointer().write(self.instructions.offset(offset)) };
    }

    /// Sets the running unit, as shown by tracebacks and `f_lasti`.
    pub fn set_unit(&self, unit: u32) {
        self.set_offset(unit as isize);
    }

    /// Returns the unit that `f_lasti` shows; -1 before the first.
    pub fn unit(&self) -> i32 {
        self.offset() as i32
    }

    /// Returns the unit where a frame that is not yet evaluated, or is suspended, continues.
    pub fn next_unit(&self) -> u32 {
        match self.abi.layout.frame.instruction_is {
            InstructionPointer::Previous => (self.offset() + 1) as u32,
            InstructionPointer::Current => self.offset() as u32,
        }
    }

    /// Returns the unit that determines the handler of an exception thrown into a suspended frame.
    pub fn throwing_unit(&self) -> u32 {
        self.next_unit().saturating_sub(1)
    }

    /// Sets the unit where the frame continues.
    pub fn set_next_unit(&self, unit: u32) {
        self.set_offset(match self.abi.layout.frame.instruction_is {
            InstructionPointer::Previous => unit as isize - 1,
            InstructionPointer::Current => unit as isize,
        });
    }

    /// Moves the frame back to before its first instruction.
    pub(crate) fn rewind(&self) {
        self.set_next_unit(0);
    }

    /// Sets the number of slots in use by locals and stack, and returns the old number; `None` while the frame runs.
    fn replace_stack_top(&self, slots: Option<usize>) -> Option<usize> {
        let offset = self.abi.layout.frame.stack_top;
        match self.references() {
            References::Plain => {
                let new = slots.map_or(-1, |slots| slots as c_int);
                // SAFETY: the layout says that the number of slots in use is there; CPython writes -1 while a frame runs.
                usize::try_from(unsafe { self.field::<c_int>(offset).replace(new) }).ok()
            }
            References::Tagged => {
                // While a frame runs, CPython leaves the last saved stack top there, so that the locals are visited.
                let new = self.slot(slots.unwrap_or(self.locals_count)).as_ptr();
                // SAFETY: the layout says that the address after the last slot in use is there, or NULL.
                let former = unsafe { self.field::<*mut usize>(offset).replace(new) };
                let bytes = (former as usize).checked_sub(self.slot(0).as_ptr() as usize);
                bytes.map(|bytes| bytes / size_of::<usize>())
            }
        }
    }

    /// Returns true if the value stack is where the table says, and is empty.
    pub(crate) fn has_empty_stack(&self) -> bool {
        let offset = self.abi.layout.frame.stack_top;
        match self.references() {
            // SAFETY: every frame has an int there; its meaning is what is being tested.
            References::Plain => (unsafe { self.field::<c_int>(offset).read() }) == self.locals_count as c_int,
            // SAFETY: as above, for a word.
            References::Tagged => (unsafe { self.field::<*mut usize>(offset).read() }) == self.slot(self.locals_count).as_ptr(),
        }
    }

    /// Takes the value stack out of the frame, lowest value first. From then on the collector does not visit its slots.
    pub fn take_stack(&self) -> impl Iterator<Item = Option<Bound<'py, PyAny>>> + use<'_, 'py> {
        let top = self.replace_stack_top(None).unwrap_or(self.locals_count);
        let null = self.references().null();
        // SAFETY: slots between the locals and the top hold references or NULL; we take ownership of them.
        (self.locals_count..top).map(move |index| unsafe { self.references().take(self.py(), self.slot(index).replace(null)) })
    }

    /// Puts a value stack into the frame.
    ///
    /// There must be no more values than the code's stack size; this is true for a stack built by its own bytecode.
    pub fn put_stack(&self, values: impl IntoIterator<Item = Option<Bound<'py, PyAny>>>) {
        let mut top = self.locals_count;
        for value in values {
            // SAFETY: the frame has room foreverything its code pushes; the slots above the locals are empty while we hold the stack.
            unsafe { self.slot(top).write(self.references().give(value)) };
            top += 1;
        }
        self.replace_stack_top(Some(top));
    }

    /// Returns the object that represents the raising unit on the value stack, below the exception.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn unit_object(&self, unit: i32) -> PyResult<Bound<'py, PyAny>> {
        self.references().unit(self.py(), unit)
    }

    /// Makes the frame the thread's current one until the result is dropped, as in CPython's own evaluation.
    pub fn link(&self) -> Linked<'py> {
        let layout = &self.abi.layout.frame;
        let current = self.thread.current_frame();
        // SAFETY: both fields are the frame's, which is ours while it is evaluated; the frame below outlives this one.
        let below = unsafe {
            let below = current.read();
            self.field::<*mut c_void>(layout.previous).write(below);
            if let Some(is_entry) = layout.is_entry {
                self.field::<u8>(is_entry).write(1);
            }
            current.write(self.raw.as_ptr());
            below
        };
        Linked { current, below, _py: PhantomData }
    }

    fn end(self) -> (NonNull<c_void>, Thread<'py>, &'static Abi) {
        self.ended.set(true);
        (self.raw, self.thread, self.abi)
    }

    /// Lets CPython evaluate the frame from its current position. `throw`: an exception is set, to be raised there.
    pub fn evaluate(self, throw: bool) -> Evaluated<'py> {
        let (raw, thread, abi) = self.end();
        // SAFETY: the frame is as CPython passed it to us, or as its own bytecode would have left it: stack and pointer are set.
        Evaluated::of(unsafe { (abi.symbols.eval_default)(thread.as_ptr(), raw.as_ptr(), c_int::from(throw)) })
    }

    /// Lets CPython continue at a unit with this value stack. The frame must not be linked.
    pub fn resume_at(self, unit: u32, stack: impl IntoIterator<Item = Option<Bound<'py, PyAny>>>) -> Evaluated<'py> {
        self.put_stack(stack);
        self.set_next_unit(unit);
        self.evaluate(false)
    }

    /// Leaves the frame with a return value, if its code does not have an instruction that returns one. The frame must not be linked, and
    /// its value stack must have been taken.
    pub fn give(self, value: Bound<'py, PyAny>) -> Evaluated<'py> {
        // Raising clears the frame; the exception itself is discarded.
        let ended = self.raise(pyo3::exceptions::PySystemError::new_err("a frame is left"), 0, false);
        drop(PyErr::take(value.py()));
        drop(ended);
        Evaluated::of(value.into_ptr())
    }

    /// Leaves the frame by an exception raised at `unit` that no handler of the frame catches. The frame must not be linked, and its value
    /// stack must have been taken. `entry` requests a traceback entry.
    pub fn raise(self, error: PyErr, unit: u32, entry: bool) -> Evaluated<'py> {
        let py = self.py();
        match self.abi.layout.leaving {
            Leaving::Default if entry => {
                // The default evaluator creates the entry, finds no handler at this unit, and clears the frame.
                self.put_stack([]);
                self.set_unit(unit);
                error.restore(py);
                self.evaluate(true)
            }
            Leaving::Default => {
                // No handler covers code before the first instruction has run.
                self.put_stack([]);
                self.set_unit(0);
                error.restore(py);
                self.evaluate(true)
            }
            Leaving::Caller | Leaving::Call => {
                let error = if entry {
                    self.set_unit(unit);
                    let _linked = self.link();
                    self.thread.traceback_here(error)
                } else {
                    error
                };
                self.put_stack([]);
                error.restore(py);
                let (raw, thread, abi) = self.end();
                if let Some(clear) = abi.clear_and_pop {
                    // SAFETY: the frame is the topmost of the thread's stack, unlinked, with its stack empty; it is not used again.
                    unsafe { clear(thread.as_ptr(), raw.as_ptr()) };
                }
                Evaluated::of(std::ptr::null_mut())
            }
        }
    }
}

/// Keeps a frame as the thread's current one.
pub struct Linked<'py> {
    current: NonNull<*mut c_void>,
    below: *mut c_void,
    _py: PhantomData<Python<'py>>,
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        // SAFETY: evaluations nest, so the linked frame is the thread's current one again, and the pointer to it is at the same address as
        // when it was linked.
        unsafe { self.current.write(self.below) };
    }
}
