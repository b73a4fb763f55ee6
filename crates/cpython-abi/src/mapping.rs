//! Dicts and sets beyond what pyo3 has of them.

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

/// `{**dict, **update}` in place; returns a key that is there already, at which it has stopped. Borrows both. Until 3.14 a `KeyError` that
/// the mapping itself raises looks like such a key, in CPython as well.
///
/// # Errors
/// The error that the mapping raised.
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
            // SAFETY: as above; what is stored is a new reference, or nothing is.
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

/// Whether an object is a view of a dict's keys.
pub fn is_keys(object: &Bound<'_, PyAny>) -> bool {
    kind::is_keys_view(object) || kind::is_ordered_keys_view(object)
}

/// Whether an object is a view of a dict's values.
pub fn is_values(object: &Bound<'_, PyAny>) -> bool {
    kind::is_values_view(object) || kind::is_ordered_values_view(object)
}

/// Whether an object is a view of a dict's items.
pub fn is_items(object: &Bound<'_, PyAny>) -> bool {
    kind::is_items_view(object) || kind::is_ordered_items_view(object)
}

/// Returns true for a `frozendict`, which CPython has from 3.15 on.
pub fn is_frozen(object: &Bound<'_, PyAny>) -> bool {
    // `PyFrozenDict_Type`, which is never dereferenced; 0 where there is none.
    static CLASS: OnceLock<usize> = OnceLock::new();
    let class = *CLASS.get_or_init(|| symbols::address("PyFrozenDict_Type").map_or(0, |class| class as usize));
    class != 0 && object.get_type_ptr() as usize == class
}

/// Returns true if an object answers as the dict that [`viewed`] gives, and cannot be changed itself.
pub fn shows_items(object: &Bound<'_, PyAny>) -> bool {
    kind::is_mapping_proxy(object) || is_frozen(object)
}

/// The dict that a view of a dict, or a `types.MappingProxyType`, shows, and a copy of a `frozendict` as a dict; None for another object, and
/// without memory for a copy.
pub fn viewed<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if is_frozen(object) {
        let copy = PyDict::new(object.py());
        return update(&copy, object).ok().map(|()| copy.into_any());
    }
    let is_view = is_keys(object) || is_values(object) || is_items(object) || kind::is_mapping_proxy(object);
    if !is_view || !has_lock() {
        return None;
    }
    // SAFETY: the object is alive and of one of the classes that have this as their only field, which is an object or, before it is
    // set and after the collector has cleared it, NULL.
    unsafe { Bound::from_borrowed_ptr_or_opt(object.py(), object.as_ptr().byte_add(offsets::VIEWED).cast::<*mut ffi::PyObject>().read()) }
}

/// A module, if somebody has imported it. Unlike an import, this asks nothing of the frame that is running.
///
/// # Errors
/// When Python is out of memory.
pub fn imported<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    modules(py).get_item(name)
}

/// `sys.modules`
pub fn modules(py: Python<'_>) -> Bound<'_, PyDict> {
    // SAFETY: borrows the interpreter's own dict, which it always has.
    unsafe { Bound::from_borrowed_ptr(py, ffi::PyImport_GetModuleDict()).cast_into_unchecked() }
}

/// Whether a dict iterates over its keys and values in the order in which `dict` keeps them: an `OrderedDict` has an order of its own.
///
/// # Errors
/// What Python raised.
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

/// A number that changes whenever the dict does, where the version has one, and the dict does not share the inline values of an instance.
#[inline]
pub fn dict_version(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<u64> {
    let offset = abi.layout.dict_version?;
    if let Some(inline) = abi.layout.inline_values {
        // SAFETY: all dicts have the address of their values there, if they have them apart from their table, and the dict is alive.
        let values = unsafe { dict.as_ptr().byte_add(offsets::DICT_VALUES).cast::<*const u8>().read() };
        // SAFETY: the layout says that values have this byte; they are the dict's, or those of an instance that is alive, since one that
        // dies takes them apart.
        if !values.is_null() && unsafe { values.add(inline.embedded).read() } != 0 {
            return None;
        }
    }
    // SAFETY: the layout says that a 64-bit number lies there, and the dict is alive.
    Some(unsafe { dict.as_ptr().byte_add(offset).cast::<u64>().read() })
}

/// The state of one dict, to be compared with what it is later: the few compares that stand for looking something up again.
///
/// The latest dict is kept alive for good, so this is for what lives as long as the process anyway: a module's names.
pub struct Unchanged {
    /// A version, or words of the dict's table and the value under the name. The first is NULL while nothing is remembered.
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
    /// Nothing is remembered.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: [const { (AtomicPtr::new(std::ptr::null_mut()), AtomicU64::new(0)) }; 3], dict: AtomicUsize::new(0) }
    }

    /// Remembers how a dict is now, as far as one name goes.
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
            // Never given back: see the type's documentation.
            std::mem::forget(dict.clone());
        }
        for (at, (place, found)) in self.words.iter().enumerate() {
            let &(address, value) = words.get(at).unwrap_or(&words[0]);
            found.store(value, Ordering::Relaxed);
            place.store(address.cast_mut(), Ordering::Relaxed);
        }
    }

    /// Whether the remembered dict is as it was. False where nothing is remembered.
    #[inline]
    pub fn holds(&self, _py: Python<'_>) -> bool {
        self.words.iter().all(|(place, found)| {
            let place = place.load(Ordering::Relaxed);
            // SAFETY: `remember` keeps the dict alive, and its table is as long as the words before this one hold; the lock is held, so
            // nobody writes any of them now.
            !place.is_null() && unsafe { place.read() } == found.load(Ordering::Relaxed)
        })
    }
}
