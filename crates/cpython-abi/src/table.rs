//! The table of a dict, by whose words it is known what the dict holds: where dicts have no versions.
//!
//! The table of a dict with strings for keys has a version, which CPython gives out when it specialises a global's load, which no other
//! state of a table's keys ever has, and which any change of the keys takes away: so an unchanged version says which keys there are and where
//! their values lie. Instances of a class share a table of names instead, in which names are only ever added. Of other tables, such as those of
//! subclasses and with numbers for keys, the keys themselves are compared, which somebody has to keep alive.

use pyo3::{
    exceptions::{PyNameError, PySystemError},
    ffi,
    prelude::*,
    types::{PyDict, PyInt, PyString},
};

use crate::{Abi, Listening, Thread, exception, function, observer, offsets};

/// `DICT_KEYS_GENERAL`: keys are anything, with their hashes, and values lie beside them.
const GENERAL: u8 = 0;
/// `DICT_KEYS_UNICODE`: keys are strings, and values lie beside them.
const STRINGS: u8 = 1;
/// `DICT_KEYS_SPLIT`: keys are names of a class, and values lie elsewhere.
const SPLIT: u8 = 2;

/// The table of a dict as it is now. Nothing keeps it alive.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    dict: usize,
    /// `PyDictKeysObject`
    keys: usize,
    /// `PyDictValues`; 0 where values lie beside the keys.
    values: usize,
    /// Where values begin behind that.
    first: usize,
    kind: u8,
    /// True if the keys themselves are compared.
    by_keys: bool,
}

/// The greatest number of keys that are compared.
const MOST_KEYS: usize = 64;

/// A word.
///
/// # Safety
/// It lies in live memory.
unsafe fn read(address: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (address as *const u64).read() }
}

impl Table {
    /// The table of a dict; None where words cannot tell what is in it.
    pub fn of(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<Self> {
        if abi.layout.dict_version.is_some() {
            return None;
        }
        let found = Self::read(abi, dict)?;
        if found.kind == SPLIT || (found.kind == STRINGS && found.version() != 0) {
            return Some(found);
        }
        // The globals of a subclass are not specialised.
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

    /// The keys; deleted entries have none.
    fn keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        // SAFETY: the table, which is alive, keeps its keys alive; deleted ones are NULL.
        self.entries().filter_map(|(key, _, _)| unsafe { Bound::from_borrowed_ptr_or_opt(py, key as *mut ffi::PyObject) }).collect()
    }

    /// The exact strings and ints that the caller keeps alive as long as it compares the words.
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

    /// `dk_version`; 0 where there is none.
    fn version(&self) -> u32 {
        // SAFETY: the table is alive, and has its version there.
        unsafe { ((self.keys + offsets::KEYS_VERSION) as *const u32).read() }
    }

    /// Words that hold as long as the keys are the same, and where values lie; those of the dict first.
    pub fn words(&self) -> Vec<(*const u64, u64)> {
        // Of a table of its own the sizes, the kind and the version. Names of a class are compared by their number, where that matters; a
        // dict that has once left those never has values again that lie elsewhere.
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

    /// The address of the number of names, of a table in which names may be added.
    pub fn names(&self) -> Option<*const u64> {
        (self.kind == SPLIT).then_some((self.keys + offsets::KEYS_ENTRIES) as *const u64)
    }

    /// The number of the dict's items, which its words say where values lie beside the keys.
    pub fn items(&self) -> *const u64 {
        (self.dict + offsets::DICT_ITEMS) as *const u64
    }

    /// Returns true if the values lie beside the keys, in the order in which the dict has them.
    pub fn is_ordered(&self) -> bool {
        self.kind != SPLIT
    }

    /// The key, its address, and that of the value, of each entry; without a key where one was deleted.
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

    /// The key at a position of the dict's order, and the address of its value. None beyond the end, and where the order lies elsewhere.
    pub fn entry<'py>(&self, py: Python<'py>, position: usize) -> Option<(Bound<'py, PyAny>, *const u64)> {
        let (key, _, place) = self.entries().filter(|(key, ..)| self.is_ordered() && *key != 0).nth(position)?;
        // SAFETY: the table, which is alive, keeps its keys alive.
        Some((unsafe { Bound::from_borrowed_ptr_or_opt(py, key as *mut ffi::PyObject) }?, place))
    }

    /// The addresses of all values.
    pub fn places(&self) -> Vec<*const u64> {
        self.entries().filter(|(key, ..)| *key != 0).map(|(_, _, place)| place).collect()
    }

    /// The address of the value under a key, an exact string or int; None where there is no such key.
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

/// Has CPython give the table of a dict a version, by a function that loads a global, with the dict as its globals.
fn give_version(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> PyResult<()> {
    /// The number of calls after which the load of a new function is specialised, and some more.
    const CALLS: usize = 8;
    let _away = Listening::new(None);
    // The code is a new one, since one whose load was specialised before takes its time to be so again.
    let loads = dict.py().eval(c"lambda: len", None, None)?;
    let code = function::code(&loads).ok_or_else(|| PySystemError::new_err("a function without code"))?;
    let made = function::new(abi, &code, dict)?.finish();
    if observer(Thread::current(dict.py()).map_err(|refusal| PySystemError::new_err(refusal.to_string()))?, &made).is_some() {
        return Err(PySystemError::new_err("somebody would see the function"));
    }
    for _ in 0..CALLS {
        match made.call0() {
            // The dict may have builtins of its own, without this one.
            Err(error) if error.is_instance_of::<PyNameError>(dict.py()) => return Err(PySystemError::new_err("no name to load")),
            result => drop(result?),
        }
    }
    Ok(())
}
