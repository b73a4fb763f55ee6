//! Examines a sentinel call: checks that a frame of the running interpreter matches its table.

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
    ptr::NonNull,
    sync::atomic::Ordering,
};

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyList, PyString, PyType},
};

use crate::{
    Abi, Frame, Owner, Refusal, SharedValues, Table, Thread, abi, code, mapping,
    symbols::EvalFunction,
    thread::{EVAL_BREAKER, value_of},
    types, unit_of,
};

/// The facts about the sentinel call.
struct Sentinel<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
    args: [&'a Bound<'py, PyAny>; 2],
    found: &'a Cell<Option<Result<(), Refusal>>>,
}

thread_local! {
    /// The sentinel, while its call is in progress.
    static SENTINEL: RefCell<Option<*const c_void>> = const { RefCell::new(None) };
}

/// The hook during the examination: examines the sentinel's frame, then lets CPython evaluate it like any other.
unsafe extern "C" fn examine(thread: *mut ffi::PyThreadState, raw: *mut c_void, throw: c_int) -> *mut ffi::PyObject {
    // SAFETY: CPython evaluates frames with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let (Some(frame), Some(state), Ok(abi)) = (NonNull::new(raw), NonNull::new(thread), abi(py)) else { std::process::abort() };
    let Some(sentinel) = SENTINEL.with_borrow_mut(Option::take) else {
        // A frame of another thread, or one below the sentinel's.
        //
        // SAFETY: the arguments are CPython's own.
        return unsafe { (abi.symbols.eval_default)(thread, raw, throw) };
    };
    // SAFETY: `probe` keeps the sentinel alive during the call, and removes the hook when it returns.
    let sentinel = unsafe { &*sentinel.cast::<Sentinel<'_, '_>>() };
    let ended = Cell::new(false);
    let thread = Thread::of(state.cast(), abi, py);
    // SAFETY: the frame is CPython's; whether it matches the table is what is being tested.
    let frame = unsafe { Frame::new(frame, thread, abi, &ended) };
    sentinel.found.set(Some(examine_frame(&frame, sentinel)));
    frame.evaluate(throw != 0).raw
}

/// Returns true if two objects are the same, by address.
fn same(found: Option<&Bound<'_, PyAny>>, expected: &Bound<'_, PyAny>) -> bool {
    found.is_some_and(|found| found.as_ptr() == expected.as_ptr())
}

fn check(holds: bool, what: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::Layout(what)) }
}

fn asked<T>(answer: PyResult<T>) -> Result<T, Refusal> {
    answer.map_err(|error| Refusal::Probe(error.to_string()))
}

fn examine_frame(frame: &Frame<'_>, sentinel: &Sentinel<'_, '_>) -> Result<(), Refusal> {
    let function = sentinel.function;
    let thread = frame.thread();
    let its_code = asked(function.getattr("__code__"))?;
    check(frame.code_address() == its_code.as_ptr().cast(), "code")?;
    check(same(frame.function().as_ref(), &function.clone()), "function")?;
    check(same(frame.globals().as_ref(), &asked(function.getattr("__globals__"))?), "globals")?;
    check(same(frame.builtins().as_ref(), &asked(function.getattr("__builtins__"))?), "builtins")?;
    check(frame.namespace().is_none() && !frame.has_object(), "locals and frame object")?;
    check(frame.owner() == Owner::Thread, "owner")?;
    check(frame.locals_count() == sentinel.args.len(), "number of locals")?;
    for (index, arg) in sentinel.args.iter().enumerate() {
        check(same(frame.local(index).as_ref(), arg), "locals")?;
    }
    let names = asked(code::local_names(abi(frame.py())?, &its_code))?;
    check(asked(names.eq(("first", "second")))? && asked(code::free_count(abi(frame.py())?, &its_code))? == 0, "names of locals")?;
    check(frame.next_unit() == 0, "instruction pointer")?;
    let limit: i32 = asked(crate::import(frame.py(), "sys").and_then(|sys| sys.call_method0("getrecursionlimit")?.extract()))?;
    check(thread.recursion_limit() == limit, "recursion limit")?;
    check((1..=thread.recursion_limit()).contains(&thread.recursion_remaining()), "recursion")?;
    check(!thread.is_watched() || asked(is_watched(frame.py()))?, "trace function")?;
    examine_tracing(thread, abi(frame.py())?)?;
    examine_link(frame, &its_code)?;
    examine_handled(thread)
}

/// Checks that the marker for a running tool is where the table says.
fn examine_tracing(thread: Thread<'_>, abi: &'static Abi) -> Result<(), Refusal> {
    let before = thread.tracing();
    // SAFETY: the thread state is this thread's, and tracing is left at once after entering.
    let within = unsafe {
        (abi.symbols.enter_tracing)(thread.as_ptr());
        let within = thread.tracing();
        (abi.symbols.leave_tracing)(thread.as_ptr());
        within
    };
    check(within == before + 1 && thread.tracing() == before, "mark of a tool's code")
}

fn is_watched(py: Python<'_>) -> PyResult<bool> {
    let sys = crate::import(py, "sys")?;
    Ok(!sys.call_method0("gettrace")?.is_none() || !sys.call_method0("getprofile")?.is_none())
}

/// Checks that a linked frame is the one that CPython reports, and an unlinked one is not.
fn examine_link(frame: &Frame<'_>, code: &Bound<'_, PyAny>) -> Result<(), Refusal> {
    let shown = || {
        // SAFETY: the result is borrowed from the thread, or NULL.
        unsafe { Bound::from_borrowed_ptr_or_opt(frame.py(), ffi::PyEval_GetFrame().cast()) }
    };
    check(frame.has_empty_stack(), "stack")?;
    frame.take_stack().for_each(drop);
    let before = shown().map(|shown| shown.as_ptr());
    let linked = frame.link();
    frame.set_unit(0);
    let ours = shown();
    drop(linked);
    let is_ours = match &ours {
        Some(ours) => same(Some(&asked(ours.getattr("f_code"))?), code),
        None => false,
    };
    check(is_ours && frame.object().is_some_and(|object| same(ours.as_ref(), &object)), "current frame")?;
    check(shown().map(|shown| shown.as_ptr()) == before, "current frame after unlinking")?;
    // A unit and NULL must come back unchanged.
    let unit = asked(frame.unit_object(7))?;
    frame.put_stack([Some(unit), None]);
    let [unit, null] = frame.take_stack().collect::<Vec<_>>().try_into().map_err(|_| Refusal::Layout("stack"))?;
    check(null.is_none() && unit.is_some_and(|unit| unit_of(&unit).is_ok_and(|unit| unit == 7)), "value stack")?;
    // Restores the original state.
    frame.put_stack([]);
    frame.rewind();
    check(frame.next_unit() == 0, "instruction pointer after unlinking")
}

/// Checks that the exception being handled is where the table says.
fn examine_handled(thread: Thread<'_>) -> Result<(), Refusal> {
    let exception = value_of(thread.py(), pyo3::exceptions::PyRuntimeError::new_err("sentinel"));
    // SAFETY: the first returns a new reference or NULL; the second takes its own reference.
    let (former, seen) = unsafe {
        let former = ffi::PyErr_GetHandledException();
        ffi::PyErr_SetHandledException(exception.as_ptr());
        (former, thread.handled_address() == exception.as_ptr())
    };
    // SAFETY: this restores the exception being handled; NULL and `None` both mean none.
    unsafe {
        ffi::PyErr_SetHandledException(former);
        ffi::Py_XDECREF(former);
    }
    check(seen, "exception being handled")
}

/// A pending call that does nothing.
extern "C" fn nothing(_: *mut c_void) -> c_int {
    0
}

/// Checks that the eval breaker is where the table says. Only the main thread can determine this.
fn examine_eval_breaker(py: Python<'_>, thread: Thread<'_>) -> PyResult<()> {
    let threading = crate::import(py, "threading")?;
    if !threading.call_method0("current_thread")?.is(threading.call_method0("main_thread")?) {
        return Ok(());
    }
    py.check_signals()?;
    let before = thread.eval_breaker();
    // SAFETY: the function does nothing, and all pending calls are made before it could be unloaded.
    let raised = unsafe {
        let added = ffi::Py_AddPendingCall(Some(nothing), std::ptr::null_mut()) == 0;
        let raised = thread.eval_breaker();
        if ffi::Py_MakePendingCalls() < 0 {
            return Err(PyErr::fetch(py));
        }
        added && raised != 0
    };
    // Other threads may request the GIL at any time; in that case, the next installation examines this again.
    if before == 0 {
        EVAL_BREAKER.store(if raised { 1 } else { 2 }, Ordering::Relaxed);
    }
    Ok(())
}

/// Checks that `tp_name` and `tp_version_tag` are where the table says.
fn examine_types(py: Python<'_>, abi: &'static Abi) -> Result<(), Refusal> {
    check(types::name_of(&py.get_type::<PyDict>()) == "dict", "name of a type")?;
    let namespace = PyDict::new(py);
    let class = asked(py.get_type::<PyType>().call1(("Sentinel", (py.get_type::<PyAny>(),), &namespace)))?;
    let class = class.cast::<PyType>().map_err(|_| Refusal::Layout("type"))?;
    asked(class.setattr("attribute", 1))?;
    asked(class.getattr("attribute").map(drop))?;
    let before = types::version_tag(abi, class);
    asked(class.setattr("attribute", 2))?;
    asked(class.getattr("attribute").map(drop))?;
    check(before != 0 && types::version_tag(abi, class) != before, "version tag of a type")
}

/// Checks that dict versions and inline values are where the table says, and that they behave as expected.
fn examine_dicts(py: Python<'_>, abi: &'static Abi) -> Result<(), Refusal> {
    let dict = PyDict::new(py);
    let before = mapping::dict_version(abi, &dict);
    asked(dict.set_item("key", 1))?;
    check(before.is_some() == abi.layout.dict_version.is_some(), "version of a dict")?;
    check(before.is_none() || mapping::dict_version(abi, &dict) != before, "version of a dict")?;
    if abi.layout.inline_values.is_none() {
        return Ok(());
    }
    let class = asked(py.get_type::<PyType>().call1(("Sentinel", (py.get_type::<PyAny>(),), PyDict::new(py))))?;
    let instance = asked(class.call0())?;
    let (first, second) = (PyString::intern(py, "first"), PyString::intern(py, "second"));
    asked(instance.setattr(&first, PyList::empty(py)))?;
    asked(instance.setattr(&second, PyList::empty(py)))?;
    let dict = asked(instance.getattr("__dict__"))?;
    let dict = dict.cast::<PyDict>().map_err(|_| Refusal::Layout("dict of an instance"))?;
    let shared = SharedValues::of(abi, &instance, dict).ok_or(Refusal::Layout("inline values"))?;
    let new = PyList::empty(py);
    asked(instance.setattr(&second, &new))?;
    check(mapping::dict_version(abi, dict).is_none(), "version of a dict that shares values")?;
    // SAFETY: the dict shares the values of the instance: nothing happened in between.
    let (names, place) = unsafe { (shared.names().read(), shared.place(&second).map(|place| place.read())) };
    check(names == 2 && place == Some(new.as_ptr() as u64), "inline values")?;
    // As soon as they no longer share the values, the dict must reflect that.
    asked(instance.setattr("__dict__", PyDict::new(py)))?;
    check(SharedValues::of(abi, &instance, dict).is_none(), "inline values of a dict that was taken away")?;
    if abi.layout.dict_version.is_none() {
        return Ok(());
    }
    let before = mapping::dict_version(abi, dict);
    asked(dict.set_item(&second, &new))?;
    asked(dict.set_item(&second, PyList::empty(py)))?;
    check(before.is_some() && mapping::dict_version(abi, dict) != before, "version of a dict with values of its own")
}

/// Checks that tables of dicts without versions are where the table says, and that they behave as expected.
fn examine_tables(py: Python<'_>, abi: &'static Abi) -> Result<(), Refusal> {
    if abi.layout.dict_version.is_some() {
        return Ok(());
    }
    let dict = PyDict::new(py);
    let (first, second) = (PyString::intern(py, "first"), PyString::intern(py, "second"));
    let values = [PyList::empty(py), PyList::empty(py)];
    asked(dict.set_item(&first, &values[0]))?;
    asked(dict.set_item(&second, &values[0]))?;
    // If an observer is active, a table does not have a version, and nothing relies on it.
    let Some(table) = Table::of(abi, &dict) else { return Ok(()) };
    let holds = |(place, found): &(*const u64, u64)| {
        // SAFETY: the words are those of the dict, which is alive, and of its table, as long as the dict keeps it.
        unsafe { place.read() == *found }
    };
    let words = table.words();
    asked(dict.set_item(&second, &values[1]))?;
    // SAFETY: as above.
    let found = table.place(&second).map(|place| unsafe { place.read() });
    check(found == Some(values[1].as_ptr() as u64) && words.iter().all(holds), "table of a dict")?;
    asked(dict.del_item(&first))?;
    check(!words.iter().all(holds), "version of the table of a dict")?;
    check(Table::of(abi, &dict).is_some_and(|table| table.place(&first).is_none()), "key of a dict")
}

/// Makes the sentinel call.
pub(crate) fn probe(py: Python<'_>, abi: &'static Abi) -> Result<(), Refusal> {
    let function = asked(py.eval(c"lambda first, second: (first, second)", None, None))?;
    let args = [asked(py.eval(c"object()", None, None))?, asked(py.eval(c"object()", None, None))?];
    let found = Cell::new(None);
    let sentinel = Sentinel { function: &function, args: [&args[0], &args[1]], found: &found };
    SENTINEL.set(Some((&raw const sentinel).cast()));
    // SAFETY: the GIL is held; between the two calls this thread makes exactly one Python call, whose frame is the sentinel's.
    let (interpreter, former) = unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        (interpreter, (abi.symbols.get_eval)(interpreter))
    };
    // SAFETY: as above.
    unsafe { (abi.symbols.set_eval)(interpreter, examine as EvalFunction) };
    let result = function.call1((&args[0], &args[1]));
    // SAFETY: as above.
    unsafe { (abi.symbols.set_eval)(interpreter, former) };
    SENTINEL.set(None);
    asked(result)?;
    found.take().ok_or(Refusal::Layout("the hook is not called"))??;
    examine_types(py, abi)?;
    examine_dicts(py, abi)?;
    examine_tables(py, abi)?;
    let thread = Thread::current(py)?;
    asked(examine_eval_breaker(py, thread))
}
