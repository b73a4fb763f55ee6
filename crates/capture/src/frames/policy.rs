//! The policy that the interpreter calls: each operation of the bytecode, as performed by the capture.

use std::rc::Rc;

use dynamlir_cpython_abi::loop_iterator;
use dynamlir_guards::Facet;
use dynamlir_interpreter::{
    Activation, BinaryOp, Comparison, Conversion, FrameState, FunctionParts, Instruction, Method, Outcome as Run, Policy, UnaryOp, Unwind,
    Value, abort, comparison_name, escape_each, operator_name, semantics,
};
use pyo3::{
    exceptions::PyKeyboardInterrupt,
    prelude::*,
    types::{PyDict, PySet, PyString, PySuper, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference},
};

use crate::{
    floors::Capture,
    graph_break::{GraphBreak, Halt, reason},
    objects::{Tracked, callables::Keywords, special_names, type_name},
    state::State,
};

/// Interprets frames on fakes.
pub struct CapturePolicy {
    state: Rc<State>,
    /// Called with each instruction, for step traces: `(frame's code, unit, stack)`.
    steps: Option<Py<PyAny>>,
    /// The states of the captured frame and of the frames within it at the graph break, outermost first; empty for a frame that starts at
    /// its beginning.
    from: Vec<Rc<FrameState>>,
}

impl CapturePolicy {
    /// Creates a policy that fills `state`.
    pub(crate) fn new(state: Rc<State>, steps: Option<Py<PyAny>>, from: Vec<Rc<FrameState>>) -> Self {
        Self { state, steps, from }
    }

    fn at<'py>(&self, py: Python<'py>) -> Capture<'py> {
        Capture::new(py, self.state.clone())
    }

    /// Takes the parts that a function is created from. They belong to the frame, and their contents are not guarded.
    fn take_parts<'py>(&self, capture: &Capture<'py>, parts: &FunctionParts<'py>) -> Run<()> {
        parts.all().try_for_each(|part| {
            capture.run(capture.refuse_filling(part.get(), "makes a function of")).and_then(|()| escape_each(self, [part]))
        })
    }

    /// Returns the mapping that a dict display adds to its dict, in readable form.
    fn filling<'py>(&self, dict: &Value<'py>, mapping: &Value<'py>) -> Run<Bound<'py, PyAny>> {
        let capture = self.at(dict.get().py());
        capture.run(capture.refuse_filling(dict.get(), "fills"))?;
        capture.run(capture.pin_specials(mapping.get(), special_names::SPREAD))?;
        capture.run(capture.readable(&capture.tracked(mapping)))
    }
}

impl Policy for CapturePolicy {
    fn enter(&self, frame: &mut Activation<'_>) -> Run<()> {
        let capture = self.at(frame.py());
        capture.run(capture.begin(frame, &self.from))
    }

    fn is_foreign(&self, function: Option<&Bound<'_, PyAny>>, first: Option<&Bound<'_, PyAny>>) -> bool {
        // The program calls a function with a dead reference only through `call`, which reports it.
        let called = self.state.calling.entering.replace(0);
        let function = function.map_or(0, |function| function.as_ptr() as usize);
        let by_c = function == 0 || function != called;
        // From CPython 3.13 on, the message of an AttributeError depends on the origin of the module.
        if self.state.calling.asks_a_module.take() && by_c && first.is_some_and(|spec| self.state.torch.asks_for_origin(function, spec)) {
            self.state.calling.asks_a_module.set(true);
            return true;
        }
        self.state.calling.called_back.set(if by_c { function } else { 0 });
        first.is_some_and(|first| by_c && first.cast::<PyWeakrefReference>().is_ok_and(|reference| reference.upgrade().is_none()))
    }

    fn leaves(&self, reason: &str) -> bool {
        let location = Python::attach(|py| self.at(py).location());
        let found = GraphBreak { reason: reason::BYTECODE, message: reason.to_owned(), location };
        self.state.graph_break.borrow_mut().get_or_insert(found);
        false
    }

    fn returns<'py>(&self, frame: &Activation<'py>, value: &Value<'py>) -> Run<Option<Value<'py>>> {
        let capture = self.at(frame.py());
        Ok(capture.run(capture.converted(frame, value.get()))?.map(Value::from))
    }

    fn leave<'py>(&self, frame: &Activation<'py>, outcome: Result<&Value<'py>, &Unwind>) {
        self.at(frame.py()).note_exit(frame, outcome.err());
    }

    fn catches(&self, frame: &Activation<'_>) {
        self.at(frame.py()).note_met(frame);
    }

    fn wants_steps(&self, _: &Activation<'_>) -> bool {
        true
    }

    fn step(&self, frame: &Activation<'_>, instruction: &Instruction) -> Run<()> {
        let py = frame.py();
        let progress = &self.state.progress;
        if !frame.is_within_call() {
            progress.step.set(progress.step.get() + 1);
            progress.raising.set(None);
            progress.at.borrow_mut().insert(Rc::as_ptr(frame.place()) as usize, progress.step.get());
            // For frames within the captured one, more is known once a break is due.
            if progress.is_to_be_left() || frame.place().outer().is_none() {
                self.at(py).next_step(frame, instruction)?;
            }
        }
        if progress.is_idling(self.state.graph.borrow().nodes().len(), instruction) {
            let message = "Python computes for long without an operation on tensors".to_owned();
            let location = self.at(py).location();
            return Err(self.at(py).unwind(Halt::Break(GraphBreak { reason: reason::LONG_LOOP, message, location })));
        }
        if let Some(marks) = &progress.marks {
            self.at(py).mark(marks);
        }
        let Some(steps) = &self.steps else { return Ok(()) };
        let capture = self.at(py);
        let stack: Vec<String> = frame.stack().iter().map(|value| capture.describe_value(value)).collect();
        let shown =
            (frame.code(), instruction.unit, instruction.opcode.name(), instruction.arg, stack, self.state.graph.borrow().nodes().len());
        dynamlir_interpreter::suspended(|| steps.call1(py, shown))?;
        Ok(())
    }

    fn lets_go(&self, frame: &Activation<'_>, slot: usize) -> Run<()> {
        let capture = self.at(frame.py());
        capture.run(capture.lets_go(frame, slot))
    }

    fn store_local<'py>(&self, frame: &Activation<'py>, slot: usize, value: &Value<'py>) {
        self.state.note_store(frame, slot, value);
    }

    fn escape(&self, value: &Value<'_>) -> Run<()> {
        let capture = self.at(value.get().py());
        capture.run(capture.guard_value(&capture.tracked(value)))
    }

    fn interrupted(&self, py: Python<'_>, error: PyErr) -> Unwind {
        let capture = self.at(py);
        capture.unwind(capture.interrupted(error))
    }

    fn binary_op<'py>(&self, op: BinaryOp, in_place: bool, lhs: &Value<'py>, rhs: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(lhs.get().py());
        let name = operator_name(op, in_place);
        if !capture.concerns(lhs) && !capture.concerns(rhs) && !capture.makes_float(name, lhs.get(), rhs.get()) {
            capture.run(capture.refuse_numbers("an operator looks into", [rhs.get()].into_iter().filter(|_| name == "mod")))?;
            capture.run(capture.guard_operands(name, [lhs.get(), rhs.get()]))?;
            capture.run(capture.pin_operands(name, [lhs.get(), rhs.get()]))?;
            capture.run(capture.refuse_changed_beneath(rhs.get()))?;
            let made = capture.run(semantics::binary_op(op, in_place, lhs.get(), rhs.get()).map_err(Halt::from))?;
            if made.is_exact_instance_of::<PyDict>() {
                capture.note_new(&made);
            }
            return Ok(made.into());
        }
        capture.give(capture.computing([lhs, rhs], |[lhs, rhs]| capture.binary(name, lhs, rhs)))
    }

    fn unary_op<'py>(&self, op: UnaryOp, operand: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(operand.get().py());
        let name = match op {
            UnaryOp::Negative => "neg",
            UnaryOp::Positive => "pos",
            UnaryOp::Invert => "invert",
        };
        capture.give(capture.computing([operand], |[operand]| capture.unary(name, operand)))
    }

    fn compare<'py>(&self, op: Comparison, lhs: &Value<'py>, rhs: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(lhs.get().py());
        let apart = |value: &Value<'py>| !capture.concerns(value) && !capture.torch.is_container(value.get());
        let name = comparison_name(op);
        if apart(lhs) && apart(rhs) {
            // The frame's own containers may hold existing objects.
            capture.run(capture.guard_inside([lhs.get(), rhs.get()], special_names::COMPARED))?;
            capture.run(capture.compared([lhs.get(), rhs.get()]))?;
            capture.run(capture.pin_operands(name, [lhs.get(), rhs.get()]))?;
            return Ok(capture.run(semantics::compare(op, lhs.get(), rhs.get()).map_err(Halt::from))?.into());
        }
        capture.give(capture.computing([lhs, rhs], |[lhs, rhs]| capture.binary(name, lhs, rhs)))
    }

    fn contains<'py>(&self, container: &Value<'py>, item: &Value<'py>) -> Run<bool> {
        let capture = self.at(item.get().py());
        if container.get().is_instance_of::<PySet>() {
            capture.uses(&capture.tracked(container), Facet::Items);
        }
        capture.run(capture.with([container, item], |[container, item]| capture.contains(container, item)))
    }

    fn is_same<'py>(&self, lhs: &Value<'py>, rhs: &Value<'py>) -> Run<bool> {
        let capture = self.at(lhs.get().py());
        let values = [&capture.tracked(lhs), &capture.tracked(rhs)];
        let same = capture.run(capture.is_same(values[0], values[1]))?;
        capture.uses_sameness(values);
        Ok(same)
    }

    fn truth(&self, value: &Value<'_>) -> Run<bool> {
        let capture = self.at(value.get().py());
        let facet = if capture.torch.is_primitive(value.get()) { Facet::Outcome } else { Facet::Shape };
        capture.run(capture.using(value, facet, |value| capture.truth(value)))
    }

    fn length<'py>(&self, value: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(value.get().py());
        let readable = capture.run(capture.using(value, Facet::Shape, |value| capture.readable(value)))?;
        Ok(semantics::length(&readable)?.into())
    }

    fn load_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Run<Value<'py>> {
        let capture = self.at(name.py());
        capture.give(capture.using(owner, Facet::Itself, |owner| capture.load_attr(owner, name)))
    }

    fn load_method<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Run<Method<'py>> {
        let capture = self.at(name.py());
        let builtin = || !crate::objects::lookup::is_changeable(&owner.get().get_type());
        if !capture.concerns(owner)
            && !owner.get().is_exact_instance_of::<PySuper>()
            && builtin()
            && !owner.get().is_instance_of::<PyType>()
        {
            return semantics::load_method(owner, name);
        }
        Ok(Method { callable: self.load_attr(owner, name)?, this: None })
    }

    fn load_special<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Run<Option<Value<'py>>> {
        let capture = self.at(name.py());
        if let Some(source) = capture.run(capture.class_at(owner.get()))? {
            capture.run(capture.pin_entry(&owner.get().get_type(), source, name))?;
        }
        Ok(semantics::load_special(owner.get(), name)?.map(Value::new))
    }

    fn store_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>, value: &Value<'py>) -> Run<()> {
        let capture = self.at(name.py());
        let value = capture.tracked(value);
        capture.run(capture.using(owner, Facet::Itself, |owner| capture.store_attr(owner, name, Some(&value))))
    }

    fn delete_attr<'py>(&self, owner: &Value<'py>, name: &Bound<'py, PyString>) -> Run<()> {
        let capture = self.at(name.py());
        capture.run(capture.using(owner, Facet::Itself, |owner| capture.store_attr(owner, name, None)))
    }

    fn get_item<'py>(&self, container: &Value<'py>, key: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(key.get().py());
        capture.give(capture.with([container, key], |[container, key]| capture.get_item(container, key)))
    }

    fn set_item<'py>(&self, container: &Value<'py>, key: &Value<'py>, value: &Value<'py>) -> Run<()> {
        let capture = self.at(key.get().py());
        let value = capture.tracked(value);
        capture.run(capture.with([container, key], |[container, key]| capture.set_item(container, key, Some(&value))))
    }

    fn delete_item<'py>(&self, container: &Value<'py>, key: &Value<'py>) -> Run<()> {
        let capture = self.at(key.get().py());
        capture.run(capture.with([container, key], |[container, key]| capture.set_item(container, key, None)))
    }

    fn load_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Run<Value<'py>> {
        let capture = self.at(frame.py());
        capture.give(capture.load_global(frame, name))
    }

    fn store_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, value: &Value<'py>) -> Run<()> {
        let capture = self.at(frame.py());
        capture.run(capture.write_global(frame, name, Some(&capture.tracked(value))))
    }

    fn delete_global<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Run<()> {
        let capture = self.at(frame.py());
        capture.run(capture.write_global(frame, name, None))
    }

    fn load_deref<'py>(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>) -> Run<Option<Value<'py>>> {
        let capture = self.at(frame.py());
        Ok(capture.run(capture.load_deref(frame, slot, cell))?.map(|tracked| capture.value(tracked)))
    }

    fn store_deref<'py>(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>, value: Option<&Value<'py>>) -> Run<()> {
        let capture = self.at(frame.py());
        if let Some(content) = capture.run(capture.cell_source(frame, slot, cell))? {
            return capture.run(capture.write_cell(cell, content, value.map(|value| capture.tracked(value)).as_ref()));
        }
        escape_each(self, value)?;
        if let Some(value) = value {
            self.state.note_store(frame, slot, value);
        }
        Ok(semantics::cell_set(cell, value.map(Value::get))?)
    }

    fn call<'py>(&self, callable: &Value<'py>, args: &[Value<'py>], keywords: Option<&Bound<'py, PyTuple>>) -> Run<Value<'py>> {
        let capture = self.at(callable.get().py());
        let named = keywords.map_or(0, |names| names.as_any().len().unwrap_or(0));
        let positional: Vec<_> = args[..args.len() - named].iter().map(|arg| capture.tracked(arg)).collect();
        let pairs = keywords.into_iter().flat_map(pyo3::types::PyTupleMethods::iter).zip(&args[args.len() - named..]);
        let kwargs = pairs.map(|(name, value)| PyResult::Ok((name.extract::<String>()?, capture.tracked(value))));
        let kwargs = kwargs.collect::<PyResult<Keywords<'py>>>()?;
        capture.give(capture.using(callable, Facet::Code, |callable| capture.call(callable, &positional, &kwargs)))
    }

    fn call_ex<'py>(&self, callable: &Value<'py>, args: &Value<'py>, kwargs: Option<&Value<'py>>) -> Run<Value<'py>> {
        let capture = self.at(callable.get().py());
        let positional = capture.run(capture.unpack(&capture.tracked(args), args.get().len()?))?;
        let mut named: Keywords<'py> = Vec::new();
        if let Some(kwargs) = kwargs {
            let changed = capture.run(capture.changed(kwargs.get()))?.map(Value::new);
            let kwargs = changed.as_ref().unwrap_or(kwargs);
            let dict = kwargs.get();
            for (key, _) in dict.cast::<PyDict>().map_err(PyErr::from)?.iter() {
                let value = capture.run(capture.get_item(&capture.tracked(kwargs), &Tracked::new(key.clone())))?;
                named.push((key.extract::<String>()?, value));
            }
            if let Some(source) = capture.source_of(dict) {
                let dict = dict.cast::<PyDict>().map_err(PyErr::from)?;
                capture.run(capture.guarded(capture.guards.dict_keys(source, dict)))?;
            }
        }
        capture.give(capture.using(callable, Facet::Code, |callable| capture.call(callable, &positional, &named)))
    }

    fn spread<'py>(&self, callable: &Value<'py>, args: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(callable.get().py());
        capture.give(capture.spread_arguments(callable.get(), &capture.tracked(args)))
    }

    fn spread_keywords<'py>(&self, callable: &Value<'py>, kwargs: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(callable.get().py());
        capture.give(capture.spread_mapping(callable.get(), &capture.tracked(kwargs)))
    }

    fn iter<'py>(&self, value: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(value.get().py());
        let facet = if capture.torch.is_container(value.get()) { Facet::Shape } else { Facet::Value };
        capture.give(capture.using(value, facet, |value| capture.iter(value)))
    }

    fn iter_from<'py>(&self, object: &Value<'py>, above: &Value<'py>) -> Run<Option<Value<'py>>> {
        if loop_iterator(object.get(), above.get())?.is_none() {
            return Ok(None);
        }
        let capture = self.at(object.get().py());
        let message = format!("goes on with a loop over a {} that was begun before", type_name(object.get()));
        capture.run(capture.break_graph(reason::RESUMED, message))
    }

    fn next<'py>(&self, iterator: &Value<'py>) -> Run<Option<Value<'py>>> {
        let capture = self.at(iterator.get().py());
        let advanced = capture.run(capture.advanced(iterator.get()))?;
        let iterator = advanced.as_ref().unwrap_or(iterator.get());
        capture.run(capture.refuse_filling(iterator, "advances"))?;
        capture.run(capture.refuse_changed_beneath(iterator))?;
        let next = semantics::next(iterator);
        if capture.graph_break.borrow().is_some() {
            return Err(abort());
        }
        if let Some(item) = next? {
            return capture.give(capture.wrap_untracked(item)).map(Some);
        }
        capture.note_exhausted(iterator);
        Ok(None)
    }

    fn unpack<'py>(&self, value: &Value<'py>, count: usize) -> Run<Vec<Value<'py>>> {
        let capture = self.at(value.get().py());
        let items = capture.run(capture.using(value, Facet::Shape, |value| capture.unpack(value, count)))?;
        Ok(items.into_iter().map(|item| capture.value(item)).collect())
    }

    fn unpack_ex<'py>(&self, value: &Value<'py>, before: usize, after: usize) -> Run<Vec<Value<'py>>> {
        let capture = self.at(value.get().py());
        let readable = capture.run(capture.using(value, Facet::Shape, |value| capture.readable(value)))?;
        Ok(semantics::unpack_ex(&readable, before, after)?)
    }

    fn build_set<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Run<Value<'py>> {
        escape_each(self, items)?;
        let capture = self.at(py);
        capture.run(capture.guard_inside(items.iter().map(Value::get), special_names::HASH))?;
        capture.run(capture.addressed(items.iter().map(Value::get)))?;
        Ok(semantics::build_set(py, items)?.into())
    }

    fn build_map<'py>(&self, py: Python<'py>, items: &[Value<'py>]) -> Run<Value<'py>> {
        escape_each(self, items)?;
        let capture = self.at(py);
        capture.run(capture.guard_inside(items.iter().step_by(2).map(Value::get), special_names::HASH))?;
        capture.run(capture.refuse_nans(items.iter().step_by(2).map(Value::get), true))?;
        capture.run(capture.compared(items.iter().step_by(2).map(Value::get)))?;
        let made = semantics::build_map(py, items.chunks_exact(2).map(|pair| (pair[0].get(), pair[1].get())))?;
        capture.note_new(&made);
        Ok(made.into())
    }

    fn build_const_key_map<'py>(&self, keys: &Value<'py>, values: &[Value<'py>]) -> Run<Value<'py>> {
        escape_each(self, values)?;
        let made = semantics::build_const_key_map(keys.get(), values)?;
        self.at(keys.get().py()).note_new(&made);
        Ok(made.into())
    }

    fn list_append<'py>(&self, list: &Value<'py>, item: &Value<'py>) -> Run<()> {
        let capture = self.at(list.get().py());
        capture.run(capture.refuse_filling(list.get(), "fills"))?;
        capture.run(capture.guard_value(&capture.tracked(item)))?;
        Ok(semantics::list_append(list.get(), item.get())?)
    }

    fn list_to_tuple<'py>(&self, list: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(list.get().py());
        capture.run(capture.refuse_filling(list.get(), "takes the items of"))?;
        let made = semantics::list_to_tuple(list.get())?;
        capture.note_new(&made);
        Ok(made.into())
    }

    fn set_add<'py>(&self, set: &Value<'py>, item: &Value<'py>) -> Run<()> {
        let capture = self.at(set.get().py());
        capture.run(capture.refuse_filling(set.get(), "fills"))?;
        capture.run(capture.guard_value(&capture.tracked(item)))?;
        capture.run(capture.guard_inside([item.get()], special_names::HASH))?;
        capture.run(capture.addressed([item.get()]))?;
        Ok(semantics::set_add(set.get(), item.get())?)
    }

    fn map_add<'py>(&self, map: &Value<'py>, key: &Value<'py>, value: &Value<'py>) -> Run<()> {
        let capture = self.at(key.get().py());
        capture.run(capture.refuse_filling(map.get(), "fills"))?;
        self.set_item(map, key, value)
    }

    fn list_extend<'py>(&self, list: &Value<'py>, iterable: &Value<'py>) -> Run<()> {
        let capture = self.at(list.get().py());
        capture.run(capture.refuse_filling(list.get(), "fills"))?;
        capture.run(capture.extend(list.get(), &capture.tracked(iterable)))
    }

    fn set_update<'py>(&self, set: &Value<'py>, iterable: &Value<'py>) -> Run<()> {
        let capture = self.at(set.get().py());
        capture.run(capture.refuse_filling(set.get(), "fills"))?;
        let noted = capture.run(capture.items_in_set(&capture.tracked(iterable)))?;
        capture.run(capture.add_all(set.get(), &noted))
    }

    fn dict_update<'py>(&self, dict: &Value<'py>, mapping: &Value<'py>) -> Run<()> {
        Ok(semantics::dict_update(dict.get(), &self.filling(dict, mapping)?)?)
    }

    fn dict_merge<'py>(&self, callable: &Value<'py>, dict: &Value<'py>, mapping: &Value<'py>) -> Run<()> {
        Ok(semantics::dict_merge(callable.get(), dict.get(), &self.filling(dict, mapping)?)?)
    }

    fn convert<'py>(&self, value: &Value<'py>, conversion: Conversion) -> Run<Value<'py>> {
        let capture = self.at(value.get().py());
        let object = capture.run(capture.using(value, Facet::Value, |value| capture.printable(value)))?;
        Ok(semantics::convert(&object, conversion)?.into())
    }

    fn format<'py>(&self, value: &Value<'py>, spec: Option<&Value<'py>>) -> Run<Value<'py>> {
        let capture = self.at(value.get().py());
        let object = capture.run(capture.using(value, Facet::Value, |value| capture.printable(value)))?;
        escape_each(self, spec)?;
        Ok(semantics::format(&object, spec.map(Value::get))?.into())
    }

    fn raise<'py>(&self, exception: &Value<'py>, cause: Option<&Value<'py>>) -> Unwind {
        let capture = self.at(exception.get().py());
        let class = exception.get().cast::<PyType>().map_or_else(|_| exception.get().get_type(), Clone::clone);
        if class.is_subclass_of::<PyKeyboardInterrupt>().unwrap_or(false) {
            // It must not be mistaken for an interruption from outside.
            let (message, location) = ("raises KeyboardInterrupt".to_owned(), capture.location());
            return capture.unwind(Halt::Break(GraphBreak { reason: reason::RAISED, message, location }));
        }
        capture.uses(&capture.tracked(exception), Facet::Itself);
        if let Err(halt) = capture.raises(&capture.tracked(exception), cause.map(|cause| capture.tracked(cause)).as_ref()) {
            return capture.unwind(halt);
        }
        semantics::raise(exception.get(), cause.map(Value::get)).into()
    }

    fn raise_again(&self, exception: Option<&Bound<'_, PyAny>>) -> Run<()> {
        Python::attach(|py| {
            let capture = self.at(py);
            let may_be_another = exception.is_none() || capture.facts.handled;
            capture.run(if may_be_another { capture.nothing_handled() } else { Ok(()) })
        })
    }

    fn exception_matches<'py>(&self, exception: &Value<'py>, class: &Value<'py>) -> Run<bool> {
        let capture = self.at(exception.get().py());
        let classes = capture.run(capture.using(class, Facet::Itself, |class| capture.classes(class)))?;
        capture.run(capture.pin_bases(exception.get()))?;
        Ok(semantics::exception_matches(exception.get(), &classes)?)
    }

    fn group_match<'py>(&self, group: &Value<'py>, class: &Value<'py>) -> Run<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let capture = self.at(group.get().py());
        let classes = capture.run(capture.using(class, Facet::Itself, |class| capture.classes(class)))?;
        capture.run(capture.pin_bases(group.get()))?;
        Ok(semantics::group_match(group.get(), &classes)?)
    }

    fn match_kind(&self, request: &Value<'_>) -> Run<()> {
        let capture = self.at(request.get().py());
        capture.run(capture.guard_value(&capture.tracked(request)))?;
        capture.uses(&capture.tracked(request), Facet::Class);
        match capture.source_of(request.get()) {
            Some(source) => capture.run(capture.pin_type(request.get(), source)),
            None => Ok(()),
        }
    }

    fn match_keys<'py>(&self, request: &Value<'py>, keys: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(request.get().py());
        let readable = capture.run(capture.using(request, Facet::Class, |request| capture.readable(request)))?;
        Ok(semantics::match_keys(&readable, keys.get())?.into())
    }

    fn match_class<'py>(&self, request: &Value<'py>, class: &Value<'py>, positional: usize, names: &Value<'py>) -> Run<Value<'py>> {
        let capture = self.at(request.get().py());
        // The uses of attributes that the pattern reads from the request are recorded where they are loaded.
        let matched = capture.using(request, Facet::Class, |request| {
            capture.using(class, Facet::Itself, |class| capture.match_class(request, class, positional, names.get()))
        });
        Ok(capture.run(matched)?.into())
    }

    fn load_name<'py>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Run<Value<'py>> {
        let capture = self.at(frame.py());
        // A class body has its own names, and otherwise uses those of its module.
        let is_own = match frame.namespace() {
            Some(namespace) => namespace.contains(name)?,
            None => false,
        };
        if !is_own {
            return self.load_global(frame, name);
        }
        capture.give(capture.wrap_untracked(semantics::load_name(frame, name)?))
    }

    fn import_name<'py>(
        &self,
        frame: &Activation<'py>,
        name: &Bound<'py, PyString>,
        fromlist: &Value<'py>,
        level: &Value<'py>,
    ) -> Run<Value<'py>> {
        let capture = self.at(frame.py());
        capture.give(capture.import_name(frame, name, fromlist.get(), level.get()))
    }

    fn import_from<'py>(&self, module: &Value<'py>, name: &Bound<'py, PyString>) -> Run<Value<'py>> {
        let capture = self.at(name.py());
        capture.give(capture.import_from(&capture.tracked(module), name))
    }

    fn set_function_part<'py>(&self, function: &Value<'py>, parts: FunctionParts<'py>) -> Run<()> {
        self.complete(function)?;
        let capture = self.at(function.get().py());
        self.take_parts(&capture, &parts)?;
        semantics::set_function_parts(capture.py, function.get(), &parts)?;
        Ok(capture.note_annotations(function.get(), &parts)?)
    }

    fn complete(&self, object: &Value<'_>) -> Run<()> {
        let capture = self.at(object.get().py());
        capture.run(capture.refuse_filling(object.get(), "completes"))
    }

    fn make_function<'py>(&self, frame: &Activation<'py>, code: &Value<'py>, parts: FunctionParts<'py>) -> Run<Value<'py>> {
        let capture = self.at(frame.py());
        self.take_parts(&capture, &parts)?;
        let function = semantics::make_function(frame, code.get(), &parts)?;
        let owner = capture.run(capture.globals_owner(frame))?;
        capture.note_made(&function, owner);
        capture.run(capture.note_cells(frame, code.get()))?;
        Ok(function.into())
    }
}
