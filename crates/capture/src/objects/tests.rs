//! Tests of what is known of objects without a capture, on real objects.

use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple, PyType},
};

use super::{
    callables::{describe, in_place, methods_of, receiver},
    contents::{elements, found_in, is_deque, is_named},
    layout::Layout,
    lookup::{ClassAttr, classify, instance_dict, is_changeable, is_generic, is_immutable, lookup},
    special_names::is_dunder,
};

/// Runs a test on the names that some Python code defines.
fn with_code(code: &std::ffi::CStr, test: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyResult<()> {
    Python::initialize();
    Python::attach(|py| {
        let names = PyDict::new(py);
        py.run(code, Some(&names), None)?;
        test(&names)
    })
}

fn class<'py>(names: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(names.as_any().get_item(name)?.cast_into::<PyType>()?)
}

#[test]
fn attributes_are_told_apart_by_how_they_bind() -> PyResult<()> {
    let code = c"
class Custom:
    def __get__(self, instance, owner): return 1

class A:
    plain = 1
    custom = Custom()
    def method(self): pass
    @property
    def data(self): raise RuntimeError('must not run')
";
    with_code(code, |names| {
        let class = class(names, "A")?;
        assert!(matches!(classify(&class, "plain")?, ClassAttr::Plain(_)));
        assert!(matches!(classify(&class, "custom")?, ClassAttr::Descriptor(_)));
        assert!(matches!(classify(&class, "method")?, ClassAttr::Function(_)));
        assert!(matches!(classify(&class, "data")?, ClassAttr::Data(_)));
        assert!(matches!(classify(&class, "missing")?, ClassAttr::Missing));
        assert!(lookup(&class, "__repr__")?.is_some(), "along the MRO");
        Ok(())
    })
}

#[test]
fn looking_up_runs_no_code_of_the_program() -> PyResult<()> {
    let code = c"
class Meta(type):
    def __getattribute__(cls, name): raise RuntimeError('must not run')

class A(metaclass=Meta):
    x = 1
    def __getattribute__(self, name): raise RuntimeError('must not run')

a = object.__new__(A)
object.__setattr__(a, 'own', 2)
";
    with_code(code, |names| {
        let class = class(names, "A")?;
        assert!(lookup(&class, "x")?.is_some() && lookup(&class, "y")?.is_none());
        let dict = instance_dict(&names.as_any().get_item("a")?).expect("instances of A have a dictionary");
        assert!(dict.contains("own")?);
        let own = lookup(&class, "__getattribute__")?.expect("it is defined");
        assert!(!is_generic(&own));
        Ok(())
    })
}

#[test]
fn classes_of_python_can_change_and_those_of_c_cannot() -> PyResult<()> {
    with_code(c"class A(dict): pass", |names| {
        let (own, of_c) = (class(names, "A")?, names.py().get_type::<PyDict>());
        assert!(is_changeable(&own) && !is_immutable(&own));
        assert!(!is_changeable(&of_c) && is_immutable(&of_c));
        let generic = lookup(&of_c, "__getattribute__")?.expect("each class has it");
        assert!(is_generic(&generic));
        Ok(())
    })
}

#[test]
fn a_layout_is_that_of_the_first_class_of_c() -> PyResult<()> {
    let code = c"
class Plain: pass
class Sub(dict): pass
class Slotted: __slots__ = ('x',)
class Empty: __slots__ = ()
";
    with_code(code, |names| {
        let py = names.py();
        let layout = |name: &str| Layout::of(&class(names, name)?);
        assert!(layout("Plain")?.base.is(py.get_type::<PyAny>()) && !layout("Plain")?.slots);
        assert!(layout("Sub")?.base.is(py.get_type::<PyDict>()));
        assert!(layout("Slotted")?.slots && !layout("Empty")?.slots);
        Ok(())
    })
}

#[test]
fn contents_are_those_that_c_code_reads() -> PyResult<()> {
    let code = c"
import collections, functools
held = object()
class A:
    def __init__(self): self.x = held
nested = [held, (held,)]
mapping = {1: held}
error = ValueError(held)
bound = functools.partial(len, held)
queue = collections.deque([held])
own = A()
";
    with_code(code, |names| {
        let get = |name: &str| names.as_any().get_item(name);
        let held = get("held")?;
        let holds = |name: &str| PyResult::Ok(found_in(&get(name)?)?.iter().any(|found| found.is(&held)));
        assert!(holds("nested")? && holds("mapping")? && holds("queue")?);
        assert!(found_in(&get("bound")?)?.iter().any(PyAnyMethods::is_instance_of::<PyTuple>), "its arguments");
        assert_eq!(found_in(&get("error")?)?.len(), 1, "its arguments");
        // Python code reads it, which is visible.
        assert!(found_in(&get("own")?)?.is_empty() && found_in(&get("A")?)?.is_empty());
        assert_eq!(elements(&get("mapping")?).map(|found| found.len()), Some(2));
        assert!(elements(&get("queue")?).is_none() && is_deque(&get("queue")?)?);
        assert!(is_named(&get("A")?) && is_named(&get("functools")?) && !is_named(&held));
        Ok(())
    })
}

#[test]
fn callables_know_what_they_are_bound_to() -> PyResult<()> {
    with_code(c"items = [1]\nappend = items.append\nunbound = list.append\nfunction = len\nadd = (1).__add__", |names| {
        let get = |name: &str| names.as_any().get_item(name);
        assert!(receiver(&get("append")?).is_some_and(|owner| owner.is_instance_of::<PyList>()));
        assert!(receiver(&get("add")?).is_some());
        assert!(receiver(&get("unbound")?).is_none() && receiver(&get("function")?).is_none());
        assert_eq!(describe(&get("function")?), "builtins.len");
        Ok(())
    })
}

#[test]
fn operators_have_methods() {
    assert_eq!(methods_of("iadd"), ["__iadd__", "__add__", "__radd__"]);
    assert!(methods_of("sin").is_empty());
    assert_eq!((in_place("iand"), in_place("iadd"), in_place("inv"), in_place("add")), (Some("and_"), Some("add"), None, None));
    assert!(is_dunder("__init__") && !is_dunder("_init_"));
}
