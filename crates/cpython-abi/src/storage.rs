//! The storage of instance attributes, read without creating a dict or running Python code.

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyString, PyType},
};

use crate::{
    abi::known_layout,
    inline::INLINE_VALUES,
    layout::{InlineValues, ManagedStorage},
    offsets, types,
};

/// The kind of attribute storage of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// The instance stores no attributes.
    None,
    /// All keys are strings: a look-up runs no Python code.
    Named,
    /// Unknown: a key may have its own `__eq__`.
    Unknown,
}

/// The attribute storage of one class's instances; `None` means to use CPython's own look-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InstanceStorage(Option<Storage>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Storage {
    managed: ManagedStorage,
    /// The layout and offset of values in the instances: they follow the size given by the class.
    inline: Option<(InlineValues, isize)>,
}

/// Words of an object: the byte offset from the object, and the content, of each.
pub type Words = [(isize, usize); 2];

/// Reads a word of an object.
///
/// # Safety
/// The object's class must have the word: words before the object exist if the class manages the dicts of its instances.
#[inline]
unsafe fn word(object: &Bound<'_, PyAny>, offset: isize) -> usize {
    // SAFETY: as the caller promises; the object is alive.
    unsafe { object.as_ptr().byte_offset(offset).cast::<usize>().read() }
}

impl InstanceStorage {
    /// Returns the attribute storage of a class's instances.
    pub fn of(class: &Bound<'_, PyType>) -> Self {
        let Some(layout) = known_layout(class.py()).ok().filter(|_| types::has_managed_dict(class)) else { return Self(None) };
        let has_values = types::flags(class) & INLINE_VALUES != 0;
        let inline = layout.inline_values.filter(|_| has_values && layout.managed_storage == ManagedStorage::Dict).map(|inline| {
            // SAFETY: the class is alive, and all classes have the size of their instances there.
            let size = unsafe { class.as_ptr().byte_add(offsets::TYPE_BASIC_SIZE).cast::<isize>().read() };
            (inline, size)
        });
        Self(Some(Storage { managed: layout.managed_storage, inline }))
    }

    /// Returns the words that show that an instance has no attributes stored; `None` if it may have some.
    ///
    /// # Safety
    /// The object must be an instance of the class.
    #[inline]
    pub unsafe fn without_attributes(self, object: &Bound<'_, PyAny>) -> Option<Words> {
        let Storage { managed, inline } = self.0?;
        let no_dict = (offsets::MANAGED_DICT, 0);
        let words = match (managed, inline) {
            (ManagedStorage::DictOrValues { .. }, _) => [no_dict, (offsets::MANAGED_VALUES, 0)],
            (ManagedStorage::Dict, Some((layout, at))) => {
                // SAFETY: as the caller promises; such instances have values there, which begin with these bytes. The rest of the word is
                // padding, which is never written.
                let (byte, header) =
                    unsafe { (|offset| object.as_ptr().byte_offset(at).cast::<u8>().add(offset).read(), word(object, at)) };
                if byte(layout.size) != 0 || byte(layout.valid) == 0 {
                    return None;
                }
                [no_dict, (at, header)]
            }
            (ManagedStorage::Dict | ManagedStorage::Tagged { .. }, _) => [no_dict, no_dict],
        };
        // SAFETY: the storage is that of the object's class.
        let empty = words.iter().all(|&(place, found)| unsafe { word(object, place) } == found);
        empty.then_some(words)
    }

    /// Returns the kind of attribute storage of an instance.
    ///
    /// # Safety
    /// The object must be an instance of the class.
    #[inline]
    pub unsafe fn attributes(self, object: &Bound<'_, PyAny>) -> Attributes {
        let Some(Storage { managed, inline }) = self.0 else { return Attributes::Unknown };
        // SAFETY: the storage is that of the object's class.
        let first = unsafe { word(object, offsets::MANAGED_DICT) };
        // SAFETY: as in `without_attributes`.
        let is_valid =
            |(layout, at): (InlineValues, isize)| unsafe { object.as_ptr().byte_offset(at).cast::<u8>().add(layout.valid).read() } != 0;
        if first == 0 && inline.is_some_and(|inline| !is_valid(inline)) {
            return Attributes::Unknown;
        }
        let values = matches!(managed, ManagedStorage::Tagged { .. }) && first & 1 == 1;
        if values || first == 0 {
            // SAFETY: as the caller promises.
            let nothing = unsafe { self.without_attributes(object) }.is_some();
            return if nothing { Attributes::None } else { Attributes::Named };
        }
        let dict = first as *const usize;
        // SAFETY: the word is the instance's dict, which is alive like the instance, and the offsets are valid for dicts of all supported
        // versions.
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

    /// Returns true if an instance stores no attribute with an interned name. Does not create a dict.
    ///
    /// # Safety
    /// The object must be an instance of the class.
    ///
    /// # Errors
    /// Returns the exception raised by Python.
    #[inline]
    pub unsafe fn lacks(self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
        let Some(Storage { managed, inline }) = self.0 else { return Ok(!object.hasattr(name)?) };
        // SAFETY: the storage is that of the object's class.
        let first = unsafe { word(object, offsets::MANAGED_DICT) };
        let (dict, values, keys) = match (managed, inline) {
            // SAFETY: as above; such classes have both words.
            (ManagedStorage::DictOrValues { keys }, _) => (first, unsafe { word(object, offsets::MANAGED_VALUES) }, keys),
            (ManagedStorage::Tagged { keys }, _) if first & 1 == 1 => (0, first + 1, keys),
            (ManagedStorage::Dict, Some((layout, at))) if first == 0 => {
                let values = object.as_ptr().wrapping_byte_offset(at) as usize;
                // SAFETY: as in `without_attributes`.
                if unsafe { (values as *const u8).add(layout.valid).read() } == 0 {
                    return Ok(!object.hasattr(name)?);
                }
                (0, values + layout.first, layout.keys)
            }
            (ManagedStorage::Dict | ManagedStorage::Tagged { .. }, _) => (first, 0, 0),
        };
        if dict != 0 {
            // SAFETY: the word is the instance's dict, which is alive like the instance.
            let dict = unsafe { Bound::from_borrowed_ptr(object.py(), dict as *mut ffi::PyObject) };
            let dict = dict.cast::<PyDict>()?;
            return Ok(dict.is_empty() || !dict.contains(name)?);
        }
        if values == 0 {
            return Ok(true);
        }
        // SAFETY: `ht_cached_keys` is the address of a `PyDictKeysObject`, whose entries are pairs of a name and an unused word; the n-th
        // name is that of the n-th value.
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
