//! Where the instances of a class store attributes, read without making a dict or running Python code.

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyString, PyType},
};

use crate::{
    inline::INLINE_VALUES,
    layout::{ManagedStorage, layout},
    offsets, types,
};

/// What an instance stores attributes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Nothing.
    None,
    /// Something whose keys are strings: looking for one runs no Python code.
    Named,
    /// Anything; a key may have an `__eq__` of its own.
    Unknown,
}

/// Where the instances of one class keep attributes; none: CPython is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InstanceStorage(Option<ManagedStorage>);

/// A word in front of an object.
///
/// # Safety
/// The object's class manages the dict of its instances, so these words are there.
#[inline]
unsafe fn word(object: &Bound<'_, PyAny>, offset: isize) -> usize {
    // SAFETY: as the caller promises; the object is alive.
    unsafe { object.as_ptr().byte_offset(offset).cast::<usize>().read() }
}

impl InstanceStorage {
    /// Where instances of a class keep attributes.
    pub fn of(class: &Bound<'_, PyType>) -> Self {
        let version = class.py().version_info();
        let managed =
            layout((version.major, version.minor)).filter(|_| types::has_managed_dict(class)).map(|layout| layout.managed_storage);
        Self(managed.filter(|storage| *storage != ManagedStorage::Dict || types::flags(class) & INLINE_VALUES == 0))
    }

    /// If an instance has nothing to store attributes in: where it would have it, in bytes from the object. The words there are 0.
    ///
    /// # Safety
    /// The object is an instance of the class; so for the following.
    #[inline]
    pub unsafe fn without_attributes(self, object: &Bound<'_, PyAny>) -> Option<&'static [isize]> {
        let places: &[isize] = match self.0? {
            ManagedStorage::DictOrValues { .. } => &[offsets::MANAGED_DICT, offsets::MANAGED_VALUES],
            ManagedStorage::Dict | ManagedStorage::Tagged { .. } => &[offsets::MANAGED_DICT],
        };
        // SAFETY: the storage is that of the object's class.
        let empty = places.iter().all(|&place| unsafe { word(object, place) } == 0);
        empty.then_some(places)
    }

    /// What an instance stores attributes in.
    ///
    /// # Safety
    /// The object is an instance of the class.
    #[inline]
    pub unsafe fn attributes(self, object: &Bound<'_, PyAny>) -> Attributes {
        let Some(storage) = self.0 else { return Attributes::Unknown };
        // SAFETY: the storage is that of the object's class.
        let first = unsafe { word(object, offsets::MANAGED_DICT) };
        let values = matches!(storage, ManagedStorage::Tagged { .. }) && first & 1 == 1;
        if values || first == 0 {
            // SAFETY: as the caller promises.
            let nothing = unsafe { self.without_attributes(object) }.is_some();
            return if nothing { Attributes::None } else { Attributes::Named };
        }
        let dict = first as *const usize;
        // SAFETY: the word is the instance's dict, alive as the instance is, and the offsets hold for dicts of all supported versions.
        let (items, kind) = unsafe {
            let keys = dict.byte_add(offsets::DICT_KEYS).read() as *const u8;
            (dict.byte_add(offsets::DICT_ITEMS).read(), keys.add(offsets::KEYS_KIND).read())
        };
        match kind {
            _ if items == 0 => Attributes::None,
            1 | 2 => Attributes::Named,
            _ => Attributes::Unknown,
        }
    }

    /// Whether an instance stores nothing under an interned name. Makes no dict where there is none.
    ///
    /// # Safety
    /// The object is an instance of the class.
    ///
    /// # Errors
    /// What Python raised.
    #[inline]
    pub unsafe fn lacks(self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
        let Some(storage) = self.0 else { return Ok(!object.hasattr(name)?) };
        // SAFETY: the storage is that of the object's class.
        let first = unsafe { word(object, offsets::MANAGED_DICT) };
        let (dict, values, keys) = match storage {
            // SAFETY: as above; such classes have both words.
            ManagedStorage::DictOrValues { keys } => (first, unsafe { word(object, offsets::MANAGED_VALUES) }, keys),
            ManagedStorage::Tagged { keys } if first & 1 == 1 => (0, first + 1, keys),
            ManagedStorage::Dict | ManagedStorage::Tagged { .. } => (first, 0, 0),
        };
        if dict != 0 {
            // SAFETY: the word is the instance's dict, alive as the instance is.
            let dict = unsafe { Bound::from_borrowed_ptr(object.py(), dict as *mut ffi::PyObject) };
            let dict = dict.cast::<PyDict>()?;
            return Ok(dict.is_empty() || !dict.contains(name)?);
        }
        if values == 0 {
            return Ok(true);
        }
        // SAFETY: `ht_cached_keys` is the address of a `PyDictKeysObject`, whose entries are pairs of a name and nothing; the n-th name
        // is that of the n-th value.
        unsafe {
            let keys = object.get_type_ptr().byte_add(keys).cast::<*const usize>().read();
            if keys.is_null() {
                return Ok(true);
            }
            let entries = keys.byte_add(offsets::KEYS_ENTRIES).read();
            if entries == 0 {
                return Ok(true);
            }
            let index_bytes = 1_usize << keys.cast::<u8>().add(offsets::KEYS_LOG2_INDEX_BYTES).read();
            let first = keys.byte_add(offsets::KEYS_INDEX + index_bytes).cast::<[usize; 2]>();
            let wanted = name.as_ptr() as usize;
            let found = (0..entries).find(|&i| first.add(i).read()[0] == wanted);
            Ok(found.is_none_or(|i| (values as *const usize).add(i).read() == 0))
        }
    }
}
