//! The operations that instructions perform: the seam where capture intercepts.

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::{
    loop_iterator,
    number::{BinaryOp, UnaryOp},
};
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::{Activation, Value, concrete};

/// The reasons why a frame does not continue with its next instruction.
#[derive(Debug)]
pub enum Unwind {
    /// A Python exception: the frame gets a traceback entry, and a handler of the frame may catch it.
    Raise(PyErr),
    /// A re-raised exception: the frame already has its traceback entry.
    Reraise(PyErr),
    /// The evaluation is aborted: all interpreted frames are left, and no handler or `finally` runs.
    Abort,
}

impl From<PyErr> for Unwind {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// The result of an operation.
pub type Outcome<T> = Result<T, Unwind>;

/// A comparison, in the order of `COMPARE_OP`'s arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// `!s`, `!r` or `!a` in a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// `str(value)`
    Str,
    /// `repr(value)`
    Repr,
    /// `ascii(value)`
    Ascii,
}

/// The target of a method call.
#[derive(Debug)]
pub struct Method<'py> {
    /// The function, or any other value of the attribute.
    pub callable: Value<'py>,
    /// The object, if `callable` is a function of its class to be called with the object first.
    pub this: Option<Value<'py>>,
}

/// The result of sending a value to a generator or iterator.
#[derive(Debug)]
pub enum Sent<'py> {
    /// It yielded.
    Yielded(Value<'py>),
    /// It returned.
    Returned(Value<'py>),
}

/// The parts of a function other than its code.
#[derive(Debug, Default)]
pub struct FunctionParts<'py> {
    /// A tuple.
    pub defaults: Option<Value<'py>>,
    /// A dict.
    pub keyword_defaults: Option<Value<'py>>,
    /// A tuple of alternating names and values, or a dict.
    pub annotations: Option<Value<'py>>,
    /// A tuple of cells.
    pub closure: Option<Value<'py>>,
    /// A function that computes the annotations, from CPython 3.14 on.
    pub annotate: Option<Value<'py>>,
}

impl<'py> FunctionParts<'py> {
    /// Returns the parts that are present.
    pub fn all(&self) -> impl Iterator<Item = &Value<'py>> {
        let Self { defaults, keyword_defaults, annotations, closure, annotate } = self;
        [defaults, keyword_defaults, annotations, closure, annotate].into_iter().flatten()
    }
}

/// The parts of a function, as numbered by its instructions.
pub(crate) mod part {
    pub const DEFAULTS: u32 = 0x01;
    pub const KEYWORD_DEFAULTS: u32 = 0x02;
    pub const ANNOTATIONS: u32 = 0x04;
    pub const CLOSURE: u32 = 0x08;
    /// From 3.14 on: a function that computes the annotations.
    pub const ANNOTATE: u32 = 0x10;
}

/// The operations of the bytecode. The default methods do what CPython does, on real objects.
///
/// Operands are borrowed from the stack and dropped after the operation, as in CPython. Methods may run any Python code, and thereby
/// re-enter themselves for another frame: state needs interior mutability, and no borrow may be held over an operation.
///
/// The methods that put a value where its source is not tracked call [`escape`](Self::escape) first. The others (arithmetic, comparisons,
/// look-ups, iteration, unpacking, formatting) just use the value: a policy that assigns sources overrides them.
#[expect(unused_variables, reason = "the names document the operations")]
pub trait Policy {
    /// Decides if frames of this code are evaluated here; returns a reason if not. Called before the first instruction.
    fn admit(&self, code: &Bound<'_, PyAny>) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns true if a frame started by C code is not part of the program, such as the callback of a dead weak reference, or code that
    /// computes an error message. CPython runs the frame and everything below it. Receives the function and its first argument.
    fn is_foreign(&self, function: Option<&Bound<'_, PyAny>>, first: Option<&Bound<'_, PyAny>>) -> bool {
        false
    }

    /// Returns true if a frame that cannot be evaluated here may run in CPython's loop. If false, the evaluation is aborted.
    fn leaves(&self, reason: &str) -> bool {
        true
    }

    /// Called when a frame starts, or continues after a yield. Its locals are in place; they may be given sources.
    fn enter(&self, frame: &mut Activation<'_>) -> Outcome<()> {
        Ok(())
    }

    /// `return value`: returns another value to return instead, if any
    fn returns<'py>(&self, frame: &Activation<'py>, value: &Value<'py>) -> Outcome<Option<Value<'py>>> {
        Ok(None)
    }

    /// Called when a frame ends or suspends, with a value or by an exception. The value has escaped.
    fn leave<'py>(&self, frame: &Activation<'py>, outcome: Result<&Value<'py>, &Unwind>) {}

    /// Called before a handler of the frame receives an exception: the handler may catch it, or re-raise it after a clean-up.
    fn catches(&self, frame: &Activation<'_>) {}

    /// Returns true if [`step`](Self::step) should be called. Called once per frame, after [`enter`](Self::enter).
    fn wants_steps(&self, frame: &Activation<'_>) -> bool {
        false
    }

    /// Called before each instruction.
    fn step(&self, frame: &Activation<'_>, instruction: &Instruction) -> Outcome<()> {
        Ok(())
    }

    /// Called when code outside of the program has raised: a signal handler, another thread.
    fn interrupted(&self, py: Python<'_>, error: PyErr) -> Unwind {
        Unwind::Raise(error)
    }

    /// Called before the value of a variable of the frame is dropped: the variable is reassigned or deleted, or the frame returns to
    /// another evaluated frame. Not called when a cell is assigned.
    fn lets_go(&self, frame: &Activation<'_>, slot: usize) -> Outcome<()> {
        Ok(())
    }

    /// Called before a value is stored in a variable of the frame. Not called for cells: see [`store_deref`](Self::store_deref).
    fn store_local<'py>(&self, frame: &Activation<'py>, slot: usize, value: &Value<'py>) {}

    /// Called when a value with a source moves to a location where the source is not tracked.
    fn escape(&self, value: &Value<'_>) -> Outcome<()> {
        Ok(())
    }

    /// `lhs op rhs`, `lhs op= rhs`
    fn binary_op<'py>(&self, op: BinaryOp, in_place: bool, lhs: &Value<'py>, rhs: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::binary_op(op, in_place, lhs.get(), rhs.get())?.into())
    }

    /// `op operand`
    fn unary_op<'py>(&self, op: UnaryOp, operand: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::unary_op(op, operand.get())?.into())
    }

    /// `lhs < rhs` and the like
    fn compare<'py>(&self, op: Comparison, lhs: &Value<'py>, rhs: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::compare(op, lhs.get(), rhs.get())?.into())
    }

    /// `item in container`
    fn contains<'py>(&self, container: &Value<'py>, item: &Value<'py>) -> Outcome<bool> {
        Ok(container.get().contains(item.get())?)
    }

    /// `lhs is rhs`
    fn is_same<'py>(&self, lhs: &Value<'py>, rhs: &Value<'py>) -> Outcome<bool> {
        Ok(lhs.get().is(rhs.get()))
    }

    /// `bool(value)`
    fn truth(&self, value: &Value<'_>) -> Outcome<bool> {
        Ok(concrete::truth(value.get())?)
    }

    /// `len(value)`, as used by patterns
    fn length<'py>(&self, value: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::length(value.get())?.into())
    }

    /// `owner.name`
    fn load_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<Value<'py>> {
        Ok(owner.get().getattr(name)?.into())
    }

    /// `owner.name`, to be called at once
    fn load_method<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<Method<'py>> {
        concrete::load_method(owner, name)
    }

    /// `super().name` or `super(class, this).name`; `callable` is the value of the name `super`
    fn load_super_attr<'py>(
        &self,
        callable: &Value<'py>,
        args: Option<[&Value<'py>; 2]>,
        name: &Bound<'py, PyString>,
    ) -> Outcome<Value<'py>> {
        let args: Vec<Value<'py>> = args.into_iter().flatten().cloned().collect();
        let made = self.call(callable, &args, None)?;
        self.load_attr(&made, name)
    }

    /// A special method, looked up in the class: `__enter__` and the like. `None` if the class does not have it.
    fn load_special<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<Option<Value<'py>>> {
        Ok(concrete::load_special(owner.get(), name)?.map(Value::new))
    }

    /// `owner.name = value`
    fn store_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>, value: &Value<'py>) -> Outcome<()> {
        escape_each(self, [value])?;
        Ok(owner.get().setattr(name, value.get())?)
    }

    /// `del owner.name`
    fn delete_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<()> {
        Ok(owner.get().delattr(name)?)
    }

    /// `container[key]`
    fn get_item<'py>(&self, container: &Value<'py>, key: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(container.get().get_item(key.get())?.into())
    }

    /// `container[key] = value`
    fn set_item<'py>(&self, container: &Value<'py>, key: &Value<'py>, value: &Value<'py>) -> Outcome<()> {
        escape_each(self, [key, value])?;
        Ok(container.get().set_item(key.get(), value.get())?)
    }

    /// `del container[key]`
    fn delete_item<'py>(&self, container: &Value<'py>, key: &Value<'py>) -> Outcome<()> {
        Ok(container.get().del_item(key.get())?)
    }

    /// A global or builtin name
    fn load_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Value<'py>> {
        Ok(concrete::load_global(frame, name)?.into())
    }

    /// `global name; name = value`
    fn store_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, value: &Value<'py>) -> Outcome<()> {
        escape_each(self, [value])?;
        Ok(concrete::store_global(frame, name, value.get())?)
    }

    /// `global name; del name`
    fn delete_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<()> {
        Ok(concrete::delete_global(frame, name)?)
    }

    /// A name in the body of a module or class
    fn load_name<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Value<'py>> {
        Ok(concrete::load_name(frame, name)?.into())
    }

    /// `name = value` in the body of a module or class
    fn store_name<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, value: &Value<'py>) -> Outcome<()> {
        escape_each(self, [value])?;
        Ok(concrete::store_name(frame, name, value.get())?)
    }

    /// `del name` in the body of a module or class
    fn delete_name<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<()> {
        Ok(concrete::delete_name(frame, name)?)
    }

    /// The content of a closure cell; `slot` is the cell's slot in the frame's locals. `None` if it is empty.
    fn load_deref<'py>(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>) -> Outcome<Option<Value<'py>>> {
        Ok(concrete::cell_get(cell)?.map(Value::new))
    }

    /// Sets a closure cell, or empties it
    fn store_deref<'py>(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>, value: Option<&Value<'py>>) -> Outcome<()> {
        escape_each(self, value)?;
        Ok(concrete::cell_set(cell, value.map(Value::get))?)
    }

    /// `callable(*positional, **named)`: the values of `keywords` are the last of `args`
    fn call<'py>(&self, callable: &Value<'py>, args: &[Value<'py>], keywords: Option<&Bound<'py, PyTuple>>) -> Outcome<Value<'py>> {
        escape_each(self, args)?;
        Ok(concrete::call(callable.get(), args, keywords)?.into())
    }

    /// The value of `*args` in a call, as a tuple
    fn spread<'py>(&self, callable: &Value<'py>, args: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(Value { object: Some(concrete::argument_tuple(callable.get(), args.get())?), source: args.source })
    }

    /// The value of `**kwargs` in a call, as a dict
    fn spread_keywords<'py>(&self, callable: &Value<'py>, kwargs: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(Value { object: Some(concrete::keyword_dict(callable.get(), kwargs.get())?), source: kwargs.source })
    }

    /// `callable(*args, **kwargs)`: a tuple, and a dict or nothing
    fn call_ex<'py>(&self, callable: &Value<'py>, args: &Value<'py>, kwargs: Option<&Value<'py>>) -> Outcome<Value<'py>> {
        Ok(concrete::call_ex(callable.get(), args.get(), kwargs.map(Value::get))?.into())
    }

    /// `iter(value)`
    #[expect(clippy::iter_not_returning_iterator, reason = "it is Python's iter")]
    fn iter<'py>(&self, value: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(value.get().try_iter()?.into_any().into())
    }

    /// Returns the iterator that continues a loop run by index so far by CPython's own evaluation (3.15). `above` is the value above the
    /// object on the stack. `None` if these two are not such a loop.
    fn iter_from<'py>(&self, object: &Value<'py>, above: &Value<'py>) -> Outcome<Option<Value<'py>>> {
        Ok(loop_iterator(object.get(), above.get())?.map(Value::new))
    }

    /// The next item of an iterator; `None` at its end
    fn next<'py>(&self, iterator: &Value<'py>) -> Outcome<Option<Value<'py>>> {
        Ok(concrete::next(iterator.get())?.map(Value::new))
    }

    /// Resumes the object that is yielded from or awaited
    fn send<'py>(&self, receiver: &Value<'py>, value: &Value<'py>) -> Outcome<Sent<'py>> {
        escape_each(self, [value])?;
        Ok(concrete::send(receiver.get(), value.get())?)
    }

    /// `a, b = value`: exactly `count` values
    fn unpack<'py>(&self, value: &Value<'py>, count: usize) -> Outcome<Vec<Value<'py>>> {
        Ok(concrete::unpack(value.get(), count)?)
    }

    /// `a, *b, c = value`: `before` values, a list, `after` values
    fn unpack_ex<'py>(&self, value: &Value<'py>, before: usize, after: usize) -> Outcome<Vec<Value<'py>>> {
        Ok(concrete::unpack_ex(value.get(), before, after)?)
    }

    /// `(a, b)`
    fn build_tuple<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, items)?;
        Ok(PyTuple::new(py, items.iter().map(Value::get))?.into_any().into())
    }

    /// `[a, b]`
    fn build_list<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, items)?;
        Ok(pyo3::types::PyList::new(py, items.iter().map(Value::get))?.into_any().into())
    }

    /// `{a, b}`
    fn build_set<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, items)?;
        Ok(concrete::build_set(py, items)?.into())
    }

    /// `{key: value}`: alternating keys and values
    fn build_map<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, items)?;
        Ok(concrete::build_map(py, items.chunks_exact(2).map(|pair| (pair[0].get(), pair[1].get())))?.into())
    }

    /// `{"name": value}` with the keys in a tuple
    fn build_const_key_map<'py>(&self, keys: &Value<'py>, values: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, values)?;
        Ok(concrete::build_const_key_map(keys.get(), values)?.into())
    }

    /// `start:stop:step`
    fn build_slice<'py>(&self, start: &Value<'py>, stop: &Value<'py>, step: Option<&Value<'py>>) -> Outcome<Value<'py>> {
        escape_each(self, [start, stop].into_iter().chain(step))?;
        Ok(concrete::build_slice(start.get(), stop.get(), step.map(Value::get))?.into())
    }

    /// Joins the parts of a format string
    fn build_string<'py>(&self, py: Python<'py>, parts: &[Value<'py>]) -> Outcome<Value<'py>> {
        escape_each(self, parts)?;
        Ok(concrete::build_string(py, parts)?.into())
    }

    /// Appends to a list that is being built
    fn list_append<'py>(&self, list: &Value<'py>, item: &Value<'py>) -> Outcome<()> {
        escape_each(self, [item])?;
        Ok(concrete::list_append(list.get(), item.get())?)
    }

    /// Adds to a set that is being built
    fn set_add<'py>(&self, set: &Value<'py>, item: &Value<'py>) -> Outcome<()> {
        escape_each(self, [item])?;
        Ok(concrete::set_add(set.get(), item.get())?)
    }

    /// Sets a key of a dict that is being built
    fn map_add<'py>(&self, map: &Value<'py>, key: &Value<'py>, value: &Value<'py>) -> Outcome<()> {
        escape_each(self, [key, value])?;
        Ok(concrete::map_add(map.get(), key.get(), value.get())?)
    }

    /// `[*list, *iterable]`
    fn list_extend<'py>(&self, list: &Value<'py>, iterable: &Value<'py>) -> Outcome<()> {
        Ok(concrete::list_extend(list.get(), iterable.get())?)
    }

    /// `{*set, *iterable}`
    fn set_update<'py>(&self, set: &Value<'py>, iterable: &Value<'py>) -> Outcome<()> {
        Ok(concrete::set_update(set.get(), iterable.get())?)
    }

    /// `{**dict, **mapping}`
    fn dict_update<'py>(&self, dict: &Value<'py>, mapping: &Value<'py>) -> Outcome<()> {
        Ok(concrete::dict_update(dict.get(), mapping.get())?)
    }

    /// `callable(**dict, **mapping)`: a key twice is an error
    fn dict_merge<'py>(&self, callable: &Value<'py>, dict: &Value<'py>, mapping: &Value<'py>) -> Outcome<()> {
        Ok(concrete::dict_merge(callable.get(), dict.get(), mapping.get())?)
    }

    /// `tuple(list)`, of a list that was just built
    fn list_to_tuple<'py>(&self, list: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::list_to_tuple(list.get())?.into())
    }

    /// `str(value)`, `repr(value)` or `ascii(value)` in a format string
    fn convert<'py>(&self, value: &Value<'py>, conversion: Conversion) -> Outcome<Value<'py>> {
        Ok(concrete::convert(value.get(), conversion)?.into())
    }

    /// `format(value, spec)`
    fn format<'py>(&self, value: &Value<'py>, spec: Option<&Value<'py>>) -> Outcome<Value<'py>> {
        Ok(concrete::format(value.get(), spec.map(Value::get))?.into())
    }

    /// `import name`, `from name import fromlist`
    fn import_name<'py>(
        &self,
        frame: &Activation<'py>,
        name: &Bound<'py, PyString>,
        fromlist: &Value<'py>,
        level: &Value<'py>,
    ) -> Outcome<Value<'py>> {
        Ok(concrete::import_name(frame, name, fromlist.get(), level.get())?.into())
    }

    /// `import name`, `from name import fromlist` where the import may be deferred (CPython 3.15): because of the statement, if `lazy`, or
    /// because of the process's settings
    fn import_lazily<'py>(
        &self,
        frame: &Activation<'py>,
        name: &Bound<'py, PyString>,
        fromlist: &Value<'py>,
        level: &Value<'py>,
        lazy: bool,
    ) -> Outcome<Value<'py>> {
        Ok(concrete::import_lazily(frame, name, fromlist.get(), level.get(), lazy)?.into())
    }

    /// `from module import name`
    fn import_from<'py>(&self, module: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<Value<'py>> {
        Ok(concrete::import_from(module.get(), name)?.into())
    }

    /// `from module import *`
    fn import_star<'py>(&self, frame: &Activation<'py>, module: &Value<'py>) -> Outcome<()> {
        Ok(concrete::import_star(frame, module.get())?)
    }

    /// `def` and `lambda`
    fn make_function<'py>(&self, frame: &Activation<'py>, code: &Value<'py>, parts: FunctionParts<'py>) -> Outcome<Value<'py>> {
        escape_each(self, parts.all())?;
        Ok(concrete::make_function(frame, code.get(), &parts)?.into())
    }

    /// Sets a part of a new function, from CPython 3.13 on
    fn set_function_part<'py>(&self, function: &Value<'py>, parts: FunctionParts<'py>) -> Outcome<()> {
        escape_each(self, parts.all())?;
        Ok(concrete::set_function_parts(function.get().py(), function.get(), &parts)?)
    }

    /// Called before an instruction completes an object created by earlier ones: a function or a type parameter
    fn complete(&self, object: &Value<'_>) -> Outcome<()> {
        Ok(())
    }

    /// `raise exception from cause`
    fn raise<'py>(&self, exception: &Value<'py>, cause: Option<&Value<'py>>) -> Unwind {
        concrete::raise(exception.get(), cause.map(Value::get)).into()
    }

    /// `raise` of the exception being handled, perhaps by a caller; `None` if no exception is being handled
    fn raise_again(&self, exception: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        Ok(())
    }

    /// `except class`: returns true if it catches the exception
    fn exception_matches<'py>(&self, exception: &Value<'py>, class: &Value<'py>) -> Outcome<bool> {
        Ok(concrete::exception_matches(exception.get(), class.get())?)
    }

    /// `except* class`: the part of a group that the class matches, and the rest
    fn group_match<'py>(&self, group: &Value<'py>, class: &Value<'py>) -> Outcome<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        Ok(concrete::group_match(group.get(), class.get())?)
    }

    /// `case [...]`, `case {...}`: called before the class of the subject decides
    fn match_kind(&self, subject: &Value<'_>) -> Outcome<()> {
        Ok(())
    }

    /// `case Class(…)`: the attributes that the patterns match against, as a tuple, or `None`
    fn match_class<'py>(&self, subject: &Value<'py>, class: &Value<'py>, positional: usize, names: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::match_class(subject.get(), class.get(), positional, names.get())?.into())
    }

    /// `case {key: …}`: the values that the patterns match against, as a tuple, or `None`
    fn match_keys<'py>(&self, subject: &Value<'py>, keys: &Value<'py>) -> Outcome<Value<'py>> {
        Ok(concrete::match_keys(subject.get(), keys.get())?.into())
    }
}

/// Notifies a policy of each value with a source that moves to a location where the source is not tracked.
pub fn escape_each<'a, 'py: 'a>(policy: &(impl Policy + ?Sized), values: impl IntoIterator<Item = &'a Value<'py>>) -> Outcome<()> {
    values.into_iter().filter(|value| value.source.is_some()).try_for_each(|value| policy.escape(value))
}

/// CPython's semantics on real objects, and nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Concrete;

impl Policy for Concrete {}
