//! Operations on dicts and sets that pyo3 lacks.

use std::{
    ffi::c_int,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
};

use pyo3::{
    exceptions::PyKeyError,
    ffi, intern,
    prelude::*,
    types::{PyDict, PySet, PyString, PyTuple},
};

use crate::{
    Abi, Table,
    abi::has_lock,
    kind, offsets,
    symbols::{self, Merge},
    types,
};

fn checked(py: Python<'_>, status: c_int) -> PyResult<()> {
    if status < 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}

/// `{**dict, **update}` in place. Stops at a key that already exists and returns it. Borrows both. Up to 3.14, a `KeyError` raised by the
/// mapping itself is mistaken for such a key, as in CPython.
///
/// # Errors
/// Returns the exception raised by the mapping.
pub fn merge_unique<'py>(abi: &'static Abi, dict: &Bound<'py, PyDict>, update: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = dict.py();
    match abi.merge {
        Merge::Ex(merge) => {
            // SAFETY: both are alive, and the first is a dict.
            let Err(error) = checked(py, unsafe { merge(dict.as_ptr(), update.as_ptr(), 2) }) else { return Ok(None) };
            if error.is_instance_of::<PyKeyError>(py) {
                let args = error.value(py).getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
                if args.len() == 1 {
                    return args.get_item(0).map(Some);
                }
            }
            Err(error)
        }
        Merge::Uniq(merge) => {
            let mut key = std::ptr::null_mut();
            // SAFETY: as above; the function stores a new reference, or nothing.
            let status = unsafe { merge(dict.as_ptr(), update.as_ptr(), &raw mut key) };
            // SAFETY: it is ours, or NULL.
            match unsafe { Bound::from_owned_ptr_or_opt(py, key) } {
                Some(key) => Ok(Some(key)),
                None => checked(py, status).map(|()| None),
            }
        }
    }
}

/// `dict.update(update)` for any mapping. Borrows both.
pub fn update<'py>(dict: &Bound<'py, PyDict>, update: &Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and the first is a dict.
    checked(dict.py(), unsafe { ffi::PyDict_Update(dict.as_ptr(), update.as_ptr()) })
}

/// `set.update(iterable)`. Borrows both.
pub fn update_set<'py>(abi: &'static Abi, set: &Bound<'py, PySet>, iterable: &Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and the first is a set.
    checked(set.py(), unsafe { (abi.symbols.set_update)(set.as_ptr(), iterable.as_ptr()) })
}

/// Returns true if an object is a view of a dict's keys.
pub fn is_keys(object: &Bound<'_, PyAny>) -> bool {
    kind::is_keys_view(object) || kind::is_ordered_keys_view(object)
}

/// Returns true if an object is a view of a dict's values.
pub fn is_values(object: &Bound<'_, PyAny>) -> bool {
    kind::is_values_view(object) || kind::is_ordered_values_view(object)
}

/// Returns true if an object is a view of a dict's items.
pub fn is_items(object: &Bound<'_, PyAny>) -> bool {
    kind::is_items_view(object) || kind::is_ordered_items_view(object)
}

/// Returns true for a `frozendict`, which CPython has from 3.15 on.
pub fn is_frozen(object: &Bound<'_, PyAny>) -> bool {
    // `PyFrozenDict_Type`, which is never dereferenced; 0 if it does not exist.
    static CLASS: OnceLock<usize> = OnceLock::new();
    let class = *CLASS.get_or_init(|| symbols::address("PyFrozenDict_Type").map_or(0, |class| class as usize));
    class != 0 && object.get_type_ptr() as usize == class
}

/// Returns true if an object behaves like the dict that [`viewed`] returns, and cannot be changed itself.
pub fn shows_items(object: &Bound<'_, PyAny>) -> bool {
    kind::is_mapping_proxy(object) || is_frozen(object)
}

/// Returns the dict shown by a dict view or a `types.MappingProxyType`, or a copy of a `frozendict` as a dict. `None` for other objects,
/// and if memory for a copy runs out.
pub fn viewed<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if is_frozen(object) {
        let copy = PyDict::new(object.py());
        return update(&copy, object).ok().map(|()| copy.into_any());
    }
    let is_view = is_keys(object) || is_values(object) || is_items(object) || kind::is_mapping_proxy(object);
    if !is_view || !has_lock() {
        return None;
    }
    // SAFETY: the object is alive and of one of the classes that have this as their only field. The field is an object, or NULL before it
    // is set and after the collector has cleared it.
    unsafe { Bound::from_borrowed_ptr_or_opt(object.py(), object.as_ptr().byte_add(offsets::VIEWED).cast::<*mut ffi::PyObject>().read()) }
}

/// Returns a module if it is already imported. Unlike an import, this does not depend on the running frame.
///
/// # Errors
/// If Python is out of memory.
pub fn imported<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    modules(py).get_item(name)
}

/// `sys.modules`
pub fn modules(py: Python<'_>) -> Bound<'_, PyDict> {
    // SAFETY: borrows the interpreter's own dict, which always exists.
    unsafe { Bound::from_borrowed_ptr(py, ffi::PyImport_GetModuleDict()).cast_into_unchecked() }
}

/// Returns true if a dict iterates over its keys and values in the order in which `dict` stores them: an `OrderedDict` has its own order.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn iterates_as_dict(dict: &Bound<'_, PyDict>) -> PyResult<bool> {
    if dict.is_exact_instance_of::<PyDict>() {
        return Ok(true);
    }
    let classes = types::mro(&dict.get_type())?;
    let general = dict.py().get_type::<PyDict>();
    for name in [intern!(dict.py(), "__iter__"), intern!(dict.py(), "keys"), intern!(dict.py(), "values")] {
        for class in &classes {
            if types::dict(class)?.contains(name)? {
                if !class.is(&general) {
                    return Ok(false);
                }
                break;
            }
        }
    }
    Ok(true)
}

/// Returns a number that changes whenever the dict does, if this version of CPython has it and the dict does not share the inline values of
/// an instance.
#[inline]
pub fn dict_version(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<u64> {
    let offset = abi.layout.dict_version?;
    if let Some(inline) = abi.layout.inline_values {
        // SAFETY: the dict is alive. All dicts have the address of their values there, if these are stored apart from their table.
        let values = unsafe { dict.as_ptr().byte_add(offsets::DICT_VALUES).cast::<*const u8>().read() };
        // SAFETY: the layout says that values have this byte. They are the dict's, or those of a live instance, since a dying instance
        // separates them.
        if !values.is_null() && unsafe { values.add(inline.embedded).read() } != 0 {
            return None;
        }
    }
    // SAFETY: the layout says that a 64-bit number is there, and the dict is alive.
    Some(unsafe { dict.as_ptr().byte_add(offset).cast::<u64>().read() })
}

/// The state of one dict, for comparison with its later state: a few comparisons replace a repeated look-up.
///
/// The latest dict is kept alive forever, so this is for dicts that live as long as the process anyway: a module's namespace.
pub struct Unchanged {
    /// A version, or words of the dict's table and the value of the name. The first is NULL while no state is remembered.
    words: [(AtomicPtr<u64>, AtomicU64); 3],
    /// The dict that is kept alive.
    dict: AtomicUsize,
}

impl Default for Unchanged {
    fn default() -> Self {
        Self::new()
    }
}

impl Unchanged {
    /// Creates an empty state.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: [const { (AtomicPtr::new(std::ptr::null_mut()), AtomicU64::new(0)) }; 3], dict: AtomicUsize::new(0) }
    }

    /// Remembers the current state of a dict, as far as one name is concerned.
    pub fn remember(&self, abi: &'static Abi, dict: &Bound<'_, PyDict>, name: &Bound<'_, PyString>) {
        let words: Vec<(*const u64, u64)> = match (abi.layout.dict_version.zip(dict_version(abi, dict)), Table::of(abi, dict)) {
            (Some((offset, version)), _) => vec![(dict.as_ptr().wrapping_byte_add(offset).cast_const().cast(), version)],
            (None, Some(table)) if table.is_ordered() => {
                // SAFETY: the table was read just now.
                let value = table.place(name).map(|place| (place, unsafe { place.read() }));
                table.words().into_iter().chain(value).collect()
            }
            _ => return,
        };
        if self.dict.swap(dict.as_ptr() as usize, Ordering::Relaxed) != dict.as_ptr() as usize {
            // Never released: see the type's documentation.
            std::mem::forget(dict.clone());
        }
        for (at, (place, found)) in self.words.iter().enumerate() {
            let &(address, value) = words.get(at).unwrap_or(&words[0]);
            found.store(value, Ordering::Relaxed);
            place.store(address.cast_mut(), Ordering::Relaxed);
        }
    }

    /// Returns true if the remembered dict is unchanged; false if no dict is remembered.
    #[inline]
    pub fn holds(&self, _py: Python<'_>) -> bool {
        self.words.iter().all(|(place, found)| {
            let place = place.load(Ordering::Relaxed);
            // SAFETY: `remember` keeps the dict alive, and its table lives as long as the words before this one are unchanged. The GIL is
            // held, so nothing writes to any of them now.
            !place.is_null() && unsafe { place.read() } == found.load(Ordering::Relaxed)
        })
    }
}
