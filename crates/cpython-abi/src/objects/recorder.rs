//! Steps from object to object, each of which may be recorded in a [`Trail`].
//!
//! A step first reads by CPython's own functions, then records the word that its result was stored in, if that word holds what
//! it should: a layout other than expected makes a step unproven, never wrong.

use std::collections::{HashMap, HashSet};

use dynamlir_torch_abi::Pattern;
use pyo3::{
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PySet, PyString, PyTuple, PyType},
};

use super::{Pin, TensorClass, Trail};
use crate::{Abi, mapping::dict_version, types};

/// What a trail says of an object that a walk has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the step was not recorded.
    None,
    /// Where the trail holds, a live object is at this address: this one, or one made after its death.
    Address,
    /// Where the trail holds, it is this very object.
    Object,
}

/// An object on the way.
#[derive(Clone)]
pub struct Spot<'py> {
    object: Bound<'py, PyAny>,
    proof: Proof,
}

impl<'py> Spot<'py> {
    /// An object of which nothing is known.
    pub fn unproven(object: Bound<'py, PyAny>) -> Self {
        Self { object, proof: Proof::None }
    }

    /// The object.
    pub fn object(&self) -> &Bound<'py, PyAny> {
        &self.object
    }

    /// What the trail says of it.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Says that its address is its identity: somebody sees to it that it is alive wherever the trail is walked.
    pub fn identify(&mut self) {
        if self.proof == Proof::Address {
            self.proof = Proof::Object;
        }
    }

    /// Whether it is a code object.
    pub fn is_code(&self) -> bool {
        Kinds::get(self.object.py()).is_ok_and(|kinds| self.object.get_type().is(&kinds.code))
    }

    /// Whether it is a Python function.
    pub fn is_function(&self) -> bool {
        Kinds::get(self.object.py()).is_ok_and(|kinds| self.object.get_type().is(&kinds.function))
    }
}

/// Where a step led: nowhere, too, may be recorded.
pub struct Reached<'py> {
    /// What was found.
    pub object: Option<Bound<'py, PyAny>>,
    /// Whether the trail proves it.
    pub proof: Proof,
}

impl<'py> From<Spot<'py>> for Reached<'py> {
    fn from(spot: Spot<'py>) -> Self {
        Self { object: Some(spot.object), proof: spot.proof }
    }
}

impl<'py> Reached<'py> {
    /// The spot, if anything was found.
    pub fn spot(&self) -> Option<Spot<'py>> {
        Some(Spot { object: self.object.clone()?, proof: self.proof })
    }

    /// Whether it is a code object.
    pub fn is_code(&self) -> bool {
        self.spot().is_some_and(|spot| spot.is_code())
    }

    /// A result that nothing proves.
    pub fn unproven(object: Option<Bound<'py, PyAny>>) -> Self {
        Self { object, proof: Proof::None }
    }
}

/// Offsets that are the same in all supported versions.
mod at {
    pub const FUNCTION_GLOBALS: usize = 16;
    pub const FUNCTION_BUILTINS: usize = 24;
    pub const FUNCTION_CODE: usize = 48;
    pub const FUNCTION_DEFAULTS: usize = 56;
    pub const FUNCTION_KWDEFAULTS: usize = 64;
    pub const FUNCTION_CLOSURE: usize = 72;
    pub const CELL_CONTENT: usize = 16;
    pub const METHOD_FUNCTION: usize = 16;
    pub const METHOD_SELF: usize = 24;
    /// `ob_size`
    pub const SIZE: usize = 16;
    pub const LIST_ITEMS: usize = 24;
    pub const TUPLE_ITEMS: usize = 24;
    pub const TYPE: usize = 8;
    pub const TYPE_DICT_OFFSET: usize = 288;
    /// `PyMemberDescrObject.d_member`, then `PyMemberDef.offset`.
    pub const MEMBER: usize = 40;
    pub const MEMBER_OFFSET: usize = 16;
    /// The word in front of objects that holds a managed instance dict.
    pub const MANAGED_DICT: isize = -24;
}

const MANAGED_DICT_FLAG: std::ffi::c_ulong = 1 << 4;
const HEAP_TYPE_FLAG: std::ffi::c_ulong = 1 << 9;

/// Makes steps, and records them if it was asked to.
pub struct Recorder<'py> {
    py: Python<'py>,
    abi: &'static Abi,
    trail: Option<Trail>,
    /// Types whose version tag is recorded: comparing the address is enough for their other instances.
    tagged: HashSet<usize>,
    dicts: HashMap<usize, u64>,
    /// Addresses of the words that are recorded.
    words: HashSet<usize>,
}

impl<'py> Recorder<'py> {
    /// A recorder that only steps.
    pub fn off(py: Python<'py>, abi: &'static Abi) -> Self {
        Self { py, abi, trail: None, tagged: HashSet::new(), dicts: HashMap::new(), words: HashSet::new() }
    }

    /// A recorder that records from a root on.
    pub fn on(abi: &'static Abi, root: &Bound<'py, PyAny>) -> (Self, Spot<'py>) {
        let recorder = Self { trail: Some(Trail::new(root)), ..Self::off(root.py(), abi) };
        (recorder, Spot { object: root.clone(), proof: Proof::Address })
    }

    /// Whether it records.
    pub fn records(&self) -> bool {
        self.trail.is_some()
    }

    /// Ends the recording. None if what was recorded is not true any more, because Python code ran meanwhile.
    pub fn finish(self, root: &Bound<'py, PyAny>) -> Option<Trail> {
        self.trail.filter(|trail| trail.holds(root, &mut Vec::new()))
    }

    /// Makes an object available to those who walk the trail again; its number among them. None if nothing proves it.
    pub fn expose(&mut self, spot: &Spot<'py>) -> Option<usize> {
        if spot.proof == Proof::None { None } else { self.trail.as_mut().map(|trail| trail.expose(&spot.object)) }
    }

    /// A pinned object.
    pub fn pinned(&mut self, pin: &Pin) -> Reached<'py> {
        let object = pin.get(self.py);
        let known = self.trail.as_mut().is_some_and(|trail| trail.rely_on(pin.flag()));
        Reached { proof: if known && object.is_some() { Proof::Object } else { Proof::None }, object }
    }

    /// Records a word of an object; false where that is not possible.
    ///
    /// # Safety
    /// Every object of its type has a word at this offset.
    unsafe fn word(&mut self, spot: &Spot<'py>, offset: isize, expected: usize) -> bool {
        // SAFETY: the trail proves that the object is alive; the callers have recorded its type where it may be another.
        spot.proof != Proof::None && unsafe { self.record(spot.object.as_ptr().byte_offset(offset).cast(), expected as u64) }
    }

    /// Records a word, once.
    ///
    /// # Safety
    /// As for [`Trail::word`].
    unsafe fn record(&mut self, address: *const u64, expected: u64) -> bool {
        let Some(trail) = &mut self.trail else { return false };
        if self.words.contains(&(address as usize)) {
            // SAFETY: as the caller promises, it lies in a live object.
            return unsafe { address.read() } == expected;
        }
        // SAFETY: as the caller promises.
        let recorded = unsafe { trail.word(address, expected) };
        if recorded {
            self.words.insert(address as usize);
        }
        recorded
    }

    /// As `word`, for a pointer to an object (or NULL).
    unsafe fn pointer(&mut self, spot: &Spot<'py>, offset: usize, found: Option<&Bound<'py, PyAny>>) -> Proof {
        let expected = found.map_or(0, |object| object.as_ptr() as usize);
        // SAFETY: as for `word`.
        if unsafe { self.word(spot, offset as isize, expected) } { Proof::Address } else { Proof::None }
    }

    /// Records the type of an object; false where that is not possible.
    pub fn class(&mut self, spot: &Spot<'py>) -> bool {
        if self.trail.is_none() || spot.proof == Proof::None {
            return false;
        }
        let class = spot.object.get_type();
        let heap = types::flags(&class) & HEAP_TYPE_FLAG != 0;
        if spot.proof == Proof::Object && !heap && !spot.object.is_instance_of::<PyModule>() {
            // An object's class can only be exchanged for another heap type, or a module's.
            return true;
        }
        self.same_class(spot, &class) && (!heap || self.tag(&class))
    }

    fn same_class(&mut self, spot: &Spot<'py>, class: &Bound<'py, PyType>) -> bool {
        // SAFETY: all objects have their type there.
        unsafe { self.word(spot, at::TYPE as isize, class.as_ptr() as usize) }
    }

    /// Records a type's version tag, which no other type ever has. The type is proven to be alive: by an instance, or itself.
    fn tag(&mut self, class: &Bound<'py, PyType>) -> bool {
        if self.tagged.contains(&(class.as_ptr() as usize)) {
            return true;
        }
        if types::version_tag(self.abi, class) == 0 {
            // Tags are given out by look-ups.
            types::lookup(self.abi, class, pyo3::intern!(self.py, "__class__"));
        }
        let tag = types::version_tag(self.abi, class);
        let spot = Spot { object: class.clone().into_any(), proof: Proof::Address };
        let offset = self.abi.layout.types.version_tag as isize;
        // SAFETY: a type is longer than that; the tag is followed by padding, which is never written.
        let word = unsafe { spot.object.as_ptr().byte_offset(offset).cast::<u64>().read() };
        // SAFETY: as above.
        let recorded = tag != 0 && unsafe { self.word(&spot, offset, word as usize) };
        if recorded {
            self.tagged.insert(class.as_ptr() as usize);
        }
        recorded
    }

    /// Records that a dict has not changed; false where that is not possible. `exact` if its type is beyond doubt.
    fn dict_state(&mut self, spot: &Spot<'py>, exact: bool) -> bool {
        let Some(offset) = self.abi.layout.dict_version else { return false };
        if self.trail.is_none() || spot.proof == Proof::None {
            return false;
        }
        let Ok(dict) = spot.object.cast::<PyDict>() else { return false };
        let Some(version) = dict_version(self.abi, dict) else { return false };
        if let Some(&known) = self.dicts.get(&(dict.as_ptr() as usize)) {
            return known == version;
        }
        if !exact && !self.class(spot) {
            return false;
        }
        // SAFETY: all dicts have their version there.
        let recorded = unsafe { self.word(spot, offset as isize, version as usize) };
        if recorded {
            self.dicts.insert(dict.as_ptr() as usize, version);
        }
        recorded
    }

    /// Records a dict's content and order; false where that is not possible.
    pub fn dict_unchanged(&mut self, spot: &Spot<'py>) -> bool {
        // An OrderedDict keeps its order elsewhere.
        spot.object.is_exact_instance_of::<PyDict>() && self.dict_state(spot, false)
    }

    /// Records a dict's content, not its order; false where that is not possible.
    pub fn dict_content(&mut self, spot: &Spot<'py>) -> bool {
        self.dict_state(spot, false)
    }

    /// Looks something up in a dict, whose state is recorded.
    fn in_dict(
        &mut self,
        spot: &Spot<'py>,
        exact: bool,
        look: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Reached<'py>> {
        let Ok(dict) = spot.object.cast::<PyDict>() else { return Ok(Reached::unproven(None)) };
        let before = dict_version(self.abi, dict);
        let object = look(dict)?;
        // Keys with an `__eq__` of their own may have changed it.
        let proven = before == dict_version(self.abi, dict) && self.dict_state(spot, exact);
        Ok(Reached { object, proof: if proven { Proof::Object } else { Proof::None } })
    }

    /// The value under a key, as `dict` itself finds it.
    ///
    /// # Errors
    /// What hashing or comparing the key raised.
    pub fn dict_item(&mut self, spot: &Spot<'py>, key: &Bound<'py, PyAny>) -> PyResult<Reached<'py>> {
        self.in_dict(spot, false, |dict| get_item(dict, key))
    }

    /// The key and the value at a position.
    ///
    /// # Errors
    /// What Python raised.
    pub fn dict_entry(&mut self, spot: &Spot<'py>, position: usize, value: bool) -> PyResult<Reached<'py>> {
        if spot.object.is_exact_instance_of::<PyDict>() {
            let entry = |dict: &Bound<'py, PyDict>| Ok(dict.iter().nth(position).map(|(k, v)| if value { v } else { k }));
            return self.in_dict(spot, false, entry);
        }
        // In the order that a subclass of C's gives.
        let Ok(dict) = spot.object.cast::<PyDict>() else { return Ok(Reached::unproven(None)) };
        let list = if value { dict.call_method0("values")? } else { dict.call_method0("keys")? };
        Ok(Reached::unproven(list.try_iter()?.nth(position).transpose()?))
    }

    /// What an instance stores under a name.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn instance_attr(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Reached<'py>> {
        let Some((dict, proof)) = self.instance_dict(spot)? else {
            let proof = if self.class(spot) { Proof::Object } else { Proof::None };
            return Ok(Reached { object: None, proof });
        };
        self.in_dict(&Spot { object: dict, proof }, true, |dict| get_item(dict, name))
    }

    /// The dict of an instance; inline values become one. None if its class gives it none.
    fn instance_dict(&mut self, spot: &Spot<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Proof)>> {
        let class = spot.object.get_type();
        let managed = types::flags(&class) & MANAGED_DICT_FLAG != 0;
        let offset: isize = if managed { at::MANAGED_DICT } else { dict_offset(&class) };
        if offset == 0 {
            return Ok(None);
        }
        // SAFETY: the object is alive and has a dict; a new reference, or NULL with an exception.
        let dict =
            unsafe { Bound::from_owned_ptr_or_err(self.py, ffi::PyObject_GenericGetDict(spot.object.as_ptr(), std::ptr::null_mut())) }?;
        // A negative offset counts from the end of an object of varying size.
        let known = (managed || offset > 0) && self.class(spot);
        // SAFETY: the class is recorded and says where its instances keep their dict.
        let proven = known && unsafe { self.word(spot, offset, dict.as_ptr() as usize) };
        Ok(Some((dict, if proven { Proof::Address } else { Proof::None })))
    }

    /// `object.__dict__`
    ///
    /// # Errors
    /// What Python raised.
    pub fn dict_of(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        let object = match spot.object.getattr(pyo3::intern!(self.py, "__dict__")) {
            Ok(object) => object,
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(self.py) => return Ok(Reached::unproven(None)),
            Err(error) => return Err(error),
        };
        // A class that looks attributes up in its own way may answer differently the next time.
        let general = types::lookup(self.abi, &self.py.get_type::<PyAny>(), pyo3::intern!(self.py, "__getattribute__"));
        let own = types::lookup(self.abi, &spot.object.get_type(), pyo3::intern!(self.py, "__getattribute__"));
        let ordinary = general.zip(own).is_some_and(|(general, own)| general.is(&own)) && self.has_plain_dict(spot);
        let stored = if ordinary && self.trail.is_some() { self.instance_dict(spot)? } else { None };
        let proof = stored.filter(|(dict, _)| dict.is(&object)).map_or(Proof::None, |(_, proof)| proof);
        Ok(Reached { object: Some(object), proof })
    }

    /// Whether `__dict__` of an instance is what CPython gives every class that has one.
    fn has_plain_dict(&self, spot: &Spot<'py>) -> bool {
        let found = types::lookup(self.abi, &spot.object.get_type(), pyo3::intern!(self.py, "__dict__"));
        found.is_some_and(|found| found.get_type().name().is_ok_and(|name| name == "getset_descriptor"))
    }

    /// What an instance stores in a slot.
    ///
    /// # Errors
    /// When the class has no such slot.
    pub fn slot(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Reached<'py>> {
        let class = spot.object.get_type();
        let descriptor =
            types::lookup(self.abi, &class, name).filter(|found| found.get_type().name().is_ok_and(|n| n == "member_descriptor"));
        let Some(descriptor) = descriptor else { return Ok(Reached::unproven(None)) };
        let object = match descriptor.call_method1("__get__", (&spot.object, &class)) {
            Ok(object) => Some(object),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(self.py) => None,
            Err(error) => return Err(error),
        };
        if !self.class(spot) {
            return Ok(Reached::unproven(object));
        }
        // SAFETY: a member descriptor points to its definition, which lives as long as the class.
        let offset = unsafe {
            let member = descriptor.as_ptr().byte_add(at::MEMBER).cast::<*const u8>().read();
            member.add(at::MEMBER_OFFSET).cast::<isize>().read_unaligned()
        };
        if offset < 16 || offset % 8 != 0 {
            return Ok(Reached::unproven(object));
        }
        // SAFETY: the class is recorded and its instances have this slot.
        let proof = unsafe { self.pointer(spot, offset as usize, object.as_ref()) };
        Ok(Reached { object, proof })
    }

    /// What a class and its bases have under a name.
    pub fn type_attr(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> Reached<'py> {
        let Ok(class) = spot.object.cast::<PyType>() else { return Reached::unproven(None) };
        let object = types::lookup(self.abi, class, name.as_any());
        let proven = self.trail.is_some() && spot.proof != Proof::None && self.tag(class);
        Reached { object, proof: if proven { Proof::Object } else { Proof::None } }
    }

    /// The class of an object.
    pub fn type_of(&mut self, spot: &Spot<'py>) -> Reached<'py> {
        let proof = if self.class(spot) { Proof::Address } else { Proof::None };
        Reached { object: Some(spot.object.get_type().into_any()), proof }
    }

    /// Records the length of a list or tuple (of an instance of a subclass, too); false where that is not possible.
    pub fn length(&mut self, spot: &Spot<'py>) -> bool {
        let length = if let Ok(tuple) = spot.object.cast::<PyTuple>() {
            tuple.len()
        } else if let Ok(list) = spot.object.cast::<PyList>() {
            list.len()
        } else {
            return false;
        };
        // SAFETY: the type is recorded, and all lists and tuples have their length there.
        self.class(spot) && unsafe { self.word(spot, at::SIZE as isize, length) }
    }

    /// Records the content of a set, whose elements are among `known` objects, which somebody keeps alive; false where that is not
    /// possible.
    pub fn set_content(&mut self, spot: &Spot<'py>, known: &[&Bound<'py, PyAny>]) -> bool {
        /// `fill`, `used`, `mask`, the address of the table, and the first entry of the small one. Entries are a key and its hash.
        const FIELDS: [isize; 4] = [16, 24, 32, 40];
        const SMALL: usize = 64;
        const LARGEST: usize = 1 << 10;
        if self.trail.is_none() || !spot.object.is_exact_instance_of::<PySet>() || !self.class(spot) {
            return false;
        }
        // SAFETY: all sets have these fields.
        let field = |at: isize| unsafe { spot.object.as_ptr().byte_offset(at).cast::<usize>().read() };
        let [_, used, mask, table] = FIELDS.map(field);
        let small = spot.object.as_ptr() as usize + SMALL;
        let sound =
            Some(used) == spot.object.len().ok() && mask < LARGEST && (mask + 1).is_power_of_two() && (table == small) == (mask == 7);
        if !sound {
            return false;
        }
        // SAFETY: a set has a table of `mask + 1` entries.
        let key = |entry: usize| unsafe { (table as *const [usize; 2]).add(entry).cast::<usize>() };
        // SAFETY: as above.
        let is_known = |entry: &usize| known.iter().any(|object| object.as_ptr() as usize == unsafe { key(*entry).read() });
        if (0..=mask).filter(is_known).count() != used {
            return false;
        }
        // SAFETY: the class is recorded.
        FIELDS.iter().all(|&at| unsafe { self.word(spot, at, field(at)) })
            // SAFETY: the set has this table as long as its fields say so.
            && (0..=mask).all(|entry| unsafe { self.record(key(entry).cast(), key(entry).read() as u64) })
    }

    /// An item of a tuple or list.
    pub fn index(&mut self, spot: &Spot<'py>, index: usize) -> Reached<'py> {
        if let Ok(tuple) = spot.object.cast::<PyTuple>() {
            let object = tuple.get_item(index).ok();
            if object.is_none() || !self.length(spot) {
                return Reached::unproven(object);
            }
            // SAFETY: the type and the length are recorded, and items follow the length.
            let address = unsafe { self.pointer(spot, at::TUPLE_ITEMS + 8 * index, object.as_ref()) };
            let proof = if spot.proof == Proof::Object && address != Proof::None { Proof::Object } else { address };
            return Reached { object, proof };
        }
        let Ok(list) = spot.object.cast::<PyList>() else { return Reached::unproven(None) };
        let object = list.get_item(index).ok();
        if object.is_none() || !self.length(spot) {
            return Reached::unproven(object);
        }
        // SAFETY: all lists have the address of their items there.
        let items = unsafe { spot.object.as_ptr().byte_add(at::LIST_ITEMS).cast::<usize>().read() };
        // SAFETY: as above.
        let same = unsafe { self.word(spot, at::LIST_ITEMS as isize, items) };
        let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
        // SAFETY: the list is alive, and has these items and at least as many as before.
        let proven = same && unsafe { self.record((items as *const u64).add(index), expected) };
        Reached { object, proof: if proven { Proof::Address } else { Proof::None } }
    }

    /// Records what makes a tensor look like a pattern, as it does now; false where that is not possible.
    pub fn tensor(&mut self, spot: &Spot<'py>, class: &TensorClass, pattern: &Pattern) -> bool {
        let Some(tensor) = class.tensor(&spot.object) else { return false };
        if !self.class(spot) {
            return false;
        }
        // SAFETY: the class is recorded, and its instances have their handle there: the address of a `TensorImpl`.
        let owns = unsafe { self.word(spot, class.handle() as isize, tensor.raw().cast::<usize>().read()) };
        let mut words = Vec::new();
        owns && pattern.evidence(tensor, &mut |word| words.push(word))
            // SAFETY: while the object has this handle, it owns what the handle leads to; the words are named in the order in which
            // each leads to the next.
            && words.into_iter().all(|word| unsafe { self.record(word, word.read()) })
    }

    /// Records that a tensor stores nothing under a name; false where that is not possible, or it does.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn tensor_lacks(&mut self, spot: &Spot<'py>, class: &TensorClass, name: &Bound<'py, PyString>) -> PyResult<bool> {
        if let Some(places) = class.without_attributes(&spot.object) {
            // SAFETY: the class is recorded, and the words in front of its instances belong to them.
            return Ok(self.class(spot) && places.iter().all(|&place| unsafe { self.word(spot, place, 0) }));
        }
        let reached = self.instance_attr(spot, name)?;
        Ok(reached.object.is_none() && reached.proof == Proof::Object)
    }

    /// A field of a function, method or cell, by the attribute that shows it; `kind` is the only type that has it.
    fn field(&mut self, spot: &Spot<'py>, kind: &Py<PyType>, attribute: &Bound<'py, PyString>, offset: usize) -> PyResult<Reached<'py>> {
        if !spot.object.get_type().is(kind) {
            return Ok(Reached::unproven(None));
        }
        let object = spot.object.getattr(attribute)?;
        if !self.class(spot) {
            return Ok(Reached::unproven(Some(object)));
        }
        // SAFETY: the type is recorded; where the field lies elsewhere the word differs. A NULL shows as None.
        let proof = unsafe {
            match self.pointer(spot, offset, Some(&object)) {
                Proof::None if object.is_none() => self.pointer(spot, offset, None),
                proof => proof,
            }
        };
        Ok(Reached { object: Some(object), proof })
    }

    /// `function.__globals__`
    ///
    /// # Errors
    /// What Python raised; as for the following.
    pub fn globals(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__globals__"), at::FUNCTION_GLOBALS)
    }

    /// `function.__builtins__`
    pub fn builtins(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__builtins__"), at::FUNCTION_BUILTINS)
    }

    /// `function.__code__`
    pub fn code(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__code__"), at::FUNCTION_CODE)
    }

    /// `function.__defaults__`
    pub fn defaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__defaults__"), at::FUNCTION_DEFAULTS)
    }

    /// `function.__kwdefaults__`
    pub fn kwdefaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__kwdefaults__"), at::FUNCTION_KWDEFAULTS)
    }

    /// `function.__closure__`
    pub fn closure(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__closure__"), at::FUNCTION_CLOSURE)
    }

    /// `method.__func__`
    pub fn method_function(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.method, pyo3::intern!(self.py, "__func__"), at::METHOD_FUNCTION)
    }

    /// `method.__self__`
    pub fn method_self(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.method, pyo3::intern!(self.py, "__self__"), at::METHOD_SELF)
    }

    /// What a cell holds.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn cell(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        if !spot.object.get_type().is(&Kinds::get(self.py)?.cell) {
            return Ok(Reached::unproven(None));
        }
        let object = match spot.object.getattr(pyo3::intern!(self.py, "cell_contents")) {
            Ok(object) => Some(object),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyValueError>(self.py) => None,
            Err(error) => return Err(error),
        };
        if !self.class(spot) {
            return Ok(Reached::unproven(object));
        }
        // SAFETY: the type is recorded, and cells hold their content there.
        let proof = unsafe { self.pointer(spot, at::CELL_CONTENT, object.as_ref()) };
        Ok(Reached { object, proof })
    }
}

/// The address of a Python function's code; None for what is no Python function.
#[inline]
pub fn code_address(function: &Bound<'_, PyAny>) -> Option<usize> {
    let kinds = Kinds::get(function.py()).ok()?;
    if function.get_type_ptr().cast() != kinds.function.as_ptr() {
        return None;
    }
    // SAFETY: all functions have their code there, in every supported version.
    Some(unsafe { function.as_ptr().byte_add(at::FUNCTION_CODE).cast::<usize>().read() })
}

fn get_item<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    dict.get_item(key)
}

/// `tp_dictoffset`
fn dict_offset(class: &Bound<'_, PyType>) -> isize {
    // SAFETY: a type is longer than that, and the field is there in all supported versions.
    unsafe { class.as_ptr().byte_add(at::TYPE_DICT_OFFSET).cast::<ffi::Py_ssize_t>().read() }
}

/// Types that `types` knows by name, whose instances have fields that we read.
struct Kinds {
    function: Py<PyType>,
    method: Py<PyType>,
    cell: Py<PyType>,
    code: Py<PyType>,
}

impl Kinds {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static KINDS: PyOnceLock<Kinds> = PyOnceLock::new();
        KINDS.get_or_try_init(py, || {
            let module = py.import("types")?;
            let class = |name: &str| Ok::<_, PyErr>(module.getattr(name)?.cast_into::<PyType>()?.unbind());
            Ok(Self { function: class("FunctionType")?, method: class("MethodType")?, cell: class("CellType")?, code: class("CodeType")? })
        })
    }
}
