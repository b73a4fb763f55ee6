//! The table of a dict, whose words reveal if the dict's content has changed: for CPython versions without dict versions.
//!
//! The table of a dict with string keys has a version, which CPython assigns when it specialises the load of a global. No other state of a
//! table's keys ever has the same version, and any change of the keys removes it. So an unchanged version determines the keys and the
//! locations of their values. Instances of a class share a name table instead, which only ever grows. For other tables, such as those of
//! subclasses and those with number keys, the keys themselves are compared; the caller has to keep these alive.

use pyo3::{
    exceptions::{PyNameError, PySystemError},
    ffi,
    prelude::*,
    types::{PyDict, PyInt, PyString},
};

use crate::{Abi, Listening, Thread, exception, function, observer, offsets};

/// `DICT_KEYS_GENERAL`: keys are any objects, with their hashes; values are next to them.
const GENERAL: u8 = 0;
/// `DICT_KEYS_UNICODE`: keys are strings; values are next to them.
const STRINGS: u8 = 1;
/// `DICT_KEYS_SPLIT`: keys are names of a class; values are stored elsewhere.
const SPLIT: u8 = 2;

/// The current table of a dict. This does not keep it alive.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    dict: usize,
    /// `PyDictKeysObject`
    keys: usize,
    /// `PyDictValues`; 0 if values are next to the keys.
    values: usize,
    /// The offset of the first value in it.
    first: usize,
    kind: u8,
    /// True if the keys themselves are compared.
    by_keys: bool,
}

/// The maximum number of keys to compare.
const MOST_KEYS: usize = 64;

/// Reads a word.
///
/// # Safety
/// The address must be in live memory.
unsafe fn read(address: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (address as *const u64).read() }
}

impl Table {
    /// Returns the table of a dict; `None` if no words determine its content.
    pub fn of(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<Self> {
        if abi.layout.dict_version.is_some() {
            return None;
        }
        let found = Self::read(abi, dict)?;
        if found.kind == SPLIT || (found.kind == STRINGS && found.version() != 0) {
            return Some(found);
        }
        // Loads from globals of a dict subclass are not specialised.
        if found.kind == STRINGS && dict.is_exact_instance_of::<PyDict>() && exception::answer(dict.py(), give_version(abi, dict)).is_some()
        {
            let found = Self::read(abi, dict).filter(|found| found.kind == STRINGS && found.version() != 0);
            if found.is_some() {
                return found;
            }
        }
        let found = Self { by_keys: true, ..Self::read(abi, dict).filter(|found| found.kind != SPLIT)? };
        let plain = |key: &Bound<'_, PyAny>| key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>();
        (found.entries().count() <= MOST_KEYS && found.keys(dict.py()).iter().all(plain)).then_some(found)
    }

    /// Returns the keys; deleted entries have none.
    fn keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        // SAFETY: the table, which is alive, keeps its keys alive; deleted ones are NULL.
        self.entries().filter_map(|(key, _, _)| unsafe { Bound::from_borrowed_ptr_or_opt(py, key as *mut ffi::PyObject) }).collect()
    }

    /// Returns the exact strings and ints that the caller must keep alive as long as it compares the words.
    pub fn kept<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        if self.by_keys { self.keys(py) } else { Vec::new() }
    }

    fn read(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<Self> {
        let address = dict.as_ptr() as usize;
        // SAFETY: the dict is alive, and all dicts have these fields and a table.
        let (keys, values) = unsafe { (read(address + offsets::DICT_KEYS) as usize, read(address + offsets::DICT_VALUES) as usize) };
        // SAFETY: as above.
        let kind = unsafe { ((keys + offsets::KEYS_KIND) as *const u8).read() };
        let sound = match kind {
            GENERAL | STRINGS => values == 0,
            SPLIT => values != 0,
            _ => false,
        };
        let first = abi.layout.inline_values?.first;
        sound.then_some(Self { dict: address, keys, values, first, kind, by_keys: false })
    }

    /// `dk_version`; 0 if there is none.
    fn version(&self) -> u32 {
        // SAFETY: the table is alive, and has its version there.
        unsafe { ((self.keys + offsets::KEYS_VERSION) as *const u32).read() }
    }

    /// Returns words that are unchanged as long as the keys and the locations of the values are; those of the dict come first.
    pub fn words(&self) -> Vec<(*const u64, u64)> {
        // A table used by one dict is identified by its sizes, kind and version. For the names of a class, callers compare their number
        // where it matters; a dict that has once left a shared table never has values elsewhere again.
        let own = self.kind != SPLIT;
        let mut places =
            vec![self.dict + offsets::DICT_KEYS, if own { self.keys + offsets::KEYS_SIZES } else { self.dict + offsets::DICT_VALUES }];
        if self.by_keys {
            places.push(self.keys + offsets::KEYS_ENTRIES);
            places.extend(self.entries().map(|(_, at, _)| at));
        }
        // SAFETY: the dict is alive, and so is its table.
        places.into_iter().map(|place| (place as *const u64, unsafe { read(place) })).collect()
    }

    /// Returns the address of the number of names, for a table to which names may be added.
    pub fn names(&self) -> Option<*const u64> {
        (self.kind == SPLIT).then_some((self.keys + offsets::KEYS_ENTRIES) as *const u64)
    }

    /// Returns the address of the number of the dict's items. If values are next to the keys, the words already determine it.
    pub fn items(&self) -> *const u64 {
        (self.dict + offsets::DICT_ITEMS) as *const u64
    }

    /// Returns true if the values are next to the keys, in the order of the dict.
    pub fn is_ordered(&self) -> bool {
        self.kind != SPLIT
    }

    /// Returns the key, its address, and the address of the value, of each entry; the key of a deleted entry is 0.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, *const u64)> + use<> {
        let Self { keys, values, first, kind, .. } = *self;
        // SAFETY: the table is alive; its entries follow its index, and are pairs of a string and a value, or three words.
        let (count, at) = unsafe {
            let index_bytes = 1_usize << ((keys + offsets::KEYS_LOG2_INDEX_BYTES) as *const u8).read();
            (read(keys + offsets::KEYS_ENTRIES) as usize, keys + offsets::KEYS_INDEX + index_bytes)
        };
        (0..count).map(move |number| {
            let entry = if kind == GENERAL { at + 24 * number + 8 } else { at + 16 * number };
            // SAFETY: as above.
            let key = unsafe { read(entry) as usize };
            (key, entry, (if kind == SPLIT { values + first + 8 * number } else { entry + 8 }) as *const u64)
        })
    }

    /// Returns the key at a position in the dict's order, and the address of its value. `None` beyond the end, and if the order is stored
    /// elsewhere.
    pub fn entry<'py>(&self, py: Python<'py>, position: usize) -> Option<(Bound<'py, PyAny>, *const u64)> {
        let (key, _, place) = self.entries().filter(|(key, ..)| self.is_ordered() && *key != 0).nth(position)?;
        // SAFETY: the table, which is alive, keeps its keys alive.
        Some((unsafe { Bound::from_borrowed_ptr_or_opt(py, key as *mut ffi::PyObject) }?, place))
    }

    /// Returns the addresses of all values.
    pub fn places(&self) -> Vec<*const u64> {
        self.entries().filter(|(key, ..)| *key != 0).map(|(_, _, place)| place).collect()
    }

    /// Returns the address of the value of a key, an exact string or int; `None` if the key does not exist.
    pub fn place(&self, key: &Bound<'_, PyAny>) -> Option<*const u64> {
        let wanted = key.as_ptr() as usize;
        let same = |(known, _, place)| (known == wanted).then_some(place);
        let equal = |(known, _, place): (usize, usize, *const u64)| {
            // SAFETY: the table, which is alive, keeps its keys alive.
            let known = unsafe { Bound::from_borrowed_ptr_or_opt(key.py(), known as *mut ffi::PyObject) }?;
            known.eq(key).unwrap_or(false).then_some(place)
        };
        self.entries().find_map(same).or_else(|| self.entries().find_map(equal))
    }
}

/// Makes CPython assign a version to the table of a dict, by running a function that loads a global, with the dict as its globals.
fn give_version(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> PyResult<()> {
    /// The number of calls after which a load in a new function is specialised, with a margin.
    const CALLS: usize = 8;
    let _away = Listening::new(None);
    // The code is new, since a load that was specialised before takes longer to be specialised again.
    let loads = dict.py().eval(c"lambda: len", None, None)?;
    let code = function::code(&loads).ok_or_else(|| PySystemError::new_err("a function without code"))?;
    let made = function::new(abi, &code, dict)?.finish();
    if observer(Thread::current(dict.py()).map_err(|refusal| PySystemError::new_err(refusal.to_string()))?, &made).is_some() {
        return Err(PySystemError::new_err("other code would see the function"));
    }
    for _ in 0..CALLS {
        match made.call0() {
            // The dict may have its own builtins, without this name.
            Err(error) if error.is_instance_of::<PyNameError>(dict.py()) => return Err(PySystemError::new_err("no name to load")),
            result => drop(result?),
        }
    }
    Ok(())
}
