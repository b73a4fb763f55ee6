//! Attribute values stored inline in instances. An instance's dict shares them until something separates them.
//!
//! The names are those of a table of the class, which only ever grows; the n-th value is that of the n-th name.

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{Abi, offsets, types};

/// `Py_TPFLAGS_INLINE_VALUES`: the values are stored in the instances.
pub(crate) const INLINE_VALUES: std::ffi::c_ulong = 1 << 2;

/// The values that an instance and its dict share. This keeps neither alive.
#[derive(Clone, Copy, Debug)]
pub struct SharedValues {
    /// `PyDictValues`
    values: usize,
    /// The address of the first value.
    first: *const u64,
    /// The capacity in values.
    room: usize,
    /// `PyDictKeysObject`: the table of names.
    keys: *const usize,
}

impl SharedValues {
    /// Returns the values that an instance shares with a dict. `None` if they share none, or if this version does not have inline values.
    pub fn of(abi: &'static Abi, instance: &Bound<'_, PyAny>, dict: &Bound<'_, PyDict>) -> Option<Self> {
        let layout = abi.layout.inline_values?;
        let class = instance.get_type();
        if types::flags(&class) & INLINE_VALUES == 0 {
            return None;
        }
        // SAFETY: the class is alive and has its size there; the dict is alive and has its values and its name table there.
        let (size, shared, keys) = unsafe {
            let field = |at: usize| dict.as_ptr().byte_add(at).cast::<usize>().read();
            let size = class.as_ptr().byte_add(offsets::TYPE_BASIC_SIZE).cast::<usize>().read();
            (size, field(offsets::DICT_VALUES), field(offsets::DICT_KEYS) as *const usize)
        };
        let values = instance.as_ptr() as usize + size;
        if shared != values {
            return None;
        }
        // SAFETY: the dict says that the instance has values there; these begin with a byte that is their capacity.
        let room = unsafe { (values as *const u8).read() };
        Some(Self { values, first: (values + layout.first) as *const u64, room: usize::from(room), keys })
    }

    /// Returns the address of the values, which the dict has at [`offsets::DICT_VALUES`] as long as it shares them.
    pub fn address(&self) -> usize {
        self.values
    }

    /// Returns true if a dict currently shares the values. Then the instance that contains them is alive, since a dying instance separates
    /// them.
    pub fn are_of(&self, dict: &Bound<'_, PyDict>) -> bool {
        // SAFETY: the dict is alive and has the address of its values there.
        unsafe { dict.as_ptr().byte_add(offsets::DICT_VALUES).cast::<usize>().read() == self.values }
    }

    /// Returns the address of the number of names in the class's table. While that number is unchanged, no name has been added.
    pub fn names(&self) -> *const u64 {
        self.keys.wrapping_byte_add(offsets::KEYS_ENTRIES).cast()
    }

    /// Returns the addresses of all values that have a name.
    ///
    /// # Safety
    /// The dict must still share the values.
    pub unsafe fn places(&self) -> impl Iterator<Item = *const u64> {
        // SAFETY: as the caller promises, the table is alive, like the class.
        let count = usize::try_from(unsafe { self.names().read() }).unwrap_or(0).min(self.room);
        let first = self.first;
        (0..count).map(move |at| first.wrapping_add(at))
    }

    /// Returns the address of the value with a name; `None` if the class does not have the name.
    ///
    /// # Safety
    /// As for [`Self::places`].
    pub unsafe fn place(&self, name: &Bound<'_, PyString>) -> Option<*const u64> {
        // SAFETY: as the caller promises, the table is alive. Its entries follow its index, and are pairs of a name and an unused word.
        let entries = unsafe {
            let index_bytes = 1_usize << self.keys.cast::<u8>().add(offsets::KEYS_LOG2_INDEX_BYTES).read();
            self.keys.byte_add(offsets::KEYS_INDEX + index_bytes).cast::<[*mut ffi::PyObject; 2]>()
        };
        // SAFETY: as the caller promises.
        let places = unsafe { self.places() };
        places.enumerate().find_map(|(at, place)| {
            // SAFETY: there are as many entries as names, and the table keeps the names, which are strings, alive.
            let known = unsafe { Bound::from_borrowed_ptr_or_opt(name.py(), entries.add(at).read()[0]) }?;
            (known.is(name) || known.eq(name).unwrap_or(false)).then_some(place)
        })
    }
}
