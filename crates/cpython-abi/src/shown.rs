//! Readable texts of objects, created without running Python code: the program has not called its `__repr__`.

use std::ffi::{c_int, c_ulong};

use pyo3::{
    ffi,
    prelude::*,
    types::{PyFunction, PyInt, PyList, PyModule, PyString, PyTuple, PyType},
};

use crate::{exception, kind, types};

/// `Py_TPFLAGS_HAVE_GC`: instances may refer to other objects, whose `repr` theirs may call.
const HAVE_GC: c_ulong = 1 << 14;

/// The maximum depth to which tuples and lists are shown.
const DEEPEST: usize = 3;

/// The maximum number of items shown of a tuple or list.
const LONGEST: usize = 16;

/// Returns the text of `repr` if that is C code that does not call other objects; otherwise the class and the address, as `<Class object at
/// 0x…>`.
pub fn shown(object: &Bound<'_, PyAny>) -> String {
    within(object, DEEPEST)
}

/// Returns the text of `repr`, as written by the object's class. `PyObject_Repr` would first run pending signal handlers, whose exceptions
/// would be mistaken for the result of this query.
///
/// # Errors
/// Returns the exception raised by the class.
pub fn repr<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    written(object, ffi::Py_tp_repr)
}

/// Returns the text of `str`; otherwise as [`repr`].
///
/// # Errors
/// Returns the exception raised by the class.
pub fn str<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    match object.cast_exact::<PyString>() {
        Ok(text) => Ok(text.clone()),
        Err(_) => written(object, ffi::Py_tp_str),
    }
}

/// Returns the hexadecimal text of an integer that may be too long for `sys.set_int_max_str_digits`, a setting that may change. `None` for
/// other objects.
///
/// # Errors
/// Returns the exception raised by Python while it formats the number (out of memory).
pub fn long_int<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    if !object.is_exact_instance_of::<PyInt>() || object.extract::<i64>().is_ok() {
        return Ok(None);
    }
    let text: Bound<'py, PyString> = object.call_method1("__format__", ("#x",))?.cast_into()?;
    // 640 decimal digits are never refused (`sys.int_info.str_digits_check_threshold`), and 512 hexadecimal digits are fewer.
    Ok((text.len()? > "-0x".len() + 512).then_some(text))
}

fn written<'py>(object: &Bound<'py, PyAny>, number: c_int) -> PyResult<Bound<'py, PyString>> {
    let slot = types::slot(&object.get_type(), number);
    // SAFETY: both slots hold a function of this type or NULL, which matches an `Option` of such a function.
    let write = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<ffi::reprfunc>>(slot) };
    let Some(write) = write else { return object.repr() };
    // SAFETY: the object is of the class whose slot this is; the function returns a new reference, or NULL with an exception set.
    let text = unsafe { Bound::from_owned_ptr_or_err(object.py(), write(object.as_ptr())) }?;
    Ok(text.cast_into()?)
}

fn within(object: &Bound<'_, PyAny>, depth: usize) -> String {
    let class = object.get_type();
    let unknown = || match object.cast::<PyType>() {
        Ok(class) => format!("<class '{}'>", types::name_of(class)),
        Err(_) => format!("<{} object at {:p}>", types::name(object), object.as_ptr()),
    };
    if let Ok(module) = object.cast_exact::<PyModule>() {
        // The `repr` of a module is Python code of `importlib`.
        let text = |name: &str| module.dict().get_item(name).ok()??.extract::<String>().ok();
        let place = text("__file__").map_or_else(String::new, |file| format!(" from '{file}'"));
        return text("__name__").map_or_else(unknown, |name| format!("<module '{name}'{place}>"));
    }
    let items = |open: &str, items: Vec<Bound<'_, PyAny>>, end: &str| {
        let rest = items.len().saturating_sub(LONGEST);
        let mut texts: Vec<_> = items.iter().take(LONGEST).map(|item| within(item, depth - 1)).collect();
        if rest > 0 {
            texts.push(format!("… {rest} more"));
        }
        format!("{open}{}{end}", texts.join(", "))
    };
    if let Ok(list) = object.cast_exact::<PyList>() {
        return if depth > 0 { items("[", list.iter().collect(), "]") } else { unknown() };
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        let end = if tuple.len() == 1 { ",)" } else { ")" };
        return if depth > 0 { items("(", tuple.iter().collect(), end) } else { unknown() };
    }
    if let Some(text) = exception::answer(object.py(), long_int(object)).flatten() {
        return text.to_string_lossy().into_owned();
    }
    // For example, torch.Size([2, 3]).
    let inherited = || match (object.cast::<PyTuple>(), object.cast::<PyList>()) {
        (Ok(tuple), _) => Some(tuple.iter().collect()),
        (_, Ok(list)) => Some(list.iter().collect()),
        _ => None,
    };
    if let Some(parts) = (depth > 0).then(inherited).flatten() {
        return items(&format!("{}([", types::name(object)), parts, "])");
    }
    if let Ok(Some((name, value))) = member(object) {
        return format!("<{}.{name}: {}>", types::name(object), if depth > 0 { within(&value, depth - 1) } else { "…".to_owned() });
    }
    let defined = types::mro(&class).ok().and_then(|mro| {
        mro.into_iter().find_map(|base| {
            let found = types::dict(&base).ok()?.get_item("__repr__").ok()?;
            Some((base, found))
        })
    });
    let safe = defined.is_some_and(|(base, found)| {
        let alone = types::flags(&base) & HAVE_GC == 0
            || object.is_instance_of::<PyType>()
            || object.is_exact_instance_of::<PyFunction>()
            || kind::is_c_function(object)
            || kind::is_class_member(object);
        kind::is_class_member(&found) && alone
    });
    let text = if safe { exception::answer(object.py(), repr(object)) } else { None };
    text.map_or_else(unknown, |text| text.to_string_lossy().into_owned())
}

/// Returns the name and the value of a member of an enumeration, whose `repr` is Python code.
fn member<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
    let class = object.get_type();
    let enumerations = crate::import(object.py(), "enum")?.getattr("EnumMeta")?;
    if !class.get_type().is_subclass(&enumerations)? || !types::has_generic_attributes(&class) {
        return Ok(None);
    }
    Ok(Some((object.getattr("_name_")?.extract()?, object.getattr("_value_")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &std::ffi::CStr = c"
import collections, enum, functools

class Color(enum.Enum):
    RED = 1

    def __repr__(self):
        raise SystemExit('called')

class Loud:
    def __repr__(self):
        raise SystemExit('called')

class Meta(type):
    def __repr__(self):
        raise SystemExit('called')

class Quiet(metaclass=Meta): pass
class Number(int): pass
class Pair(collections.namedtuple('Pair', 'x y')): pass

def function(): pass

CASES = [
    (1.5, '1.5'), ('text', \"'text'\"), ((1, [2]), '(1, [2])'), ((1,), '(1,)'), (int, \"<class 'int'>\"),
    (Loud(), '<Loud object at'), ([Loud()], '[<Loud object at'), ({1: Loud()}, '<dict object at'), (Loud().__init__, '<method-wrapper object at'),
    (functools.partial(print, Loud()), '<functools.partial object at'), (Quiet, \"<class 'Quiet'>\"), (Number(3), '3'), (Pair(1, 2), 'Pair([1, 2])'),
    (list(range(20)), '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, … 4 more]'), ((((((),),),),), '(((<tuple object at'),
    (Color.RED, '<Color.RED: 1>'), (len, '<built-in function len>'),
]
";

    #[test]
    fn nothing_of_the_users_is_called() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let module = PyModule::from_code(py, SOURCE, c"shown.py", c"shown")?;
            let cases: Vec<(Bound<'_, PyAny>, String)> = module.getattr("CASES")?.extract()?;
            for (object, text) in cases {
                assert!(shown(&object).starts_with(&text), "{} is not {text}", shown(&object));
            }
            Ok(())
        })
    }
}
