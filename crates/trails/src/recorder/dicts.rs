//! Steps through dicts, and to the values that instances and classes store under a name.

use dynamlir_cpython_abi::{
    Table, kind,
    mapping::{dict_version, iterates_as_dict},
    offsets, types,
};
use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyInt, PyString, PyType},
};

use super::{Proof, Reached, Recorder, Spot};

impl<'py> Recorder<'py> {
    /// Records the keys and the places of the values of a dict without a version; returns None if that is not possible.
    fn table(&mut self, spot: &Spot<'py>, exact: bool) -> Option<Table> {
        if self.trail.is_none() || spot.proof == Proof::None || !(exact || self.class(spot)) {
            return None;
        }
        let table = Table::of(self.abi, spot.object.cast::<PyDict>().ok()?)?;
        if let Some(trail) = &mut self.trail {
            table.kept(self.py).iter().for_each(|key| trail.keep(key));
        }
        // SAFETY: the first words belong to the dict; as long as they hold, the table that contains the others is alive.
        table.words().into_iter().all(|(place, found)| unsafe { self.record(place, found) }).then_some(table)
    }

    /// Records that a dict without a version is empty, regardless of its keys; returns false if that is not possible, or if it is not
    /// empty.
    fn no_items(&mut self, spot: &Spot<'py>, exact: bool) -> bool {
        let empty = spot.object.cast::<PyDict>().is_ok_and(PyDictMethods::is_empty);
        // SAFETY: all dicts have the number of their items there.
        empty
            && self.abi.dict_version_offset().is_none()
            && (exact || self.class(spot))
            && unsafe { self.word(spot, offsets::DICT_ITEMS as isize, 0) }
    }

    /// Steps to the value under a key, an exact string or int, in a dict without a version; returns None if words cannot prove it.
    fn in_table(&mut self, spot: &Spot<'py>, exact: bool, key: &Bound<'py, PyAny>) -> PyResult<Option<Reached<'py>>> {
        if self.no_items(spot, exact) {
            return Ok(Some(Reached { object: None, proof: Proof::Object }));
        }
        let Some(table) = self.table(spot, exact) else { return Ok(None) };
        let object = get_item(spot.object.cast::<PyDict>()?, key)?;
        let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
        let proven = match (table.place(key), table.names()) {
            // SAFETY: as long as the words of the table hold, the value under this key lies there.
            (Some(place), _) => unsafe { self.record(place, expected) },
            // SAFETY: as above; names are only ever added.
            (None, Some(names)) => object.is_none() && unsafe { self.record(names, names.read()) },
            (None, None) => object.is_none(),
        };
        let proof = match (proven, &object) {
            (false, _) => Proof::None,
            (true, Some(_)) => Proof::Address,
            (true, None) => Proof::Object,
        };
        Ok(Some(Reached { object, proof }))
    }

    /// Records the content of a dict without a version, and its order if `ordered`; returns false if that is not possible.
    fn table_content(&mut self, spot: &Spot<'py>, ordered: bool) -> bool {
        const LARGEST: usize = 256;
        if self.no_items(spot, false) {
            return true;
        }
        let Some(table) = self.table(spot, false).filter(|table| table.is_ordered() || !ordered) else { return false };
        let places = table.places();
        // SAFETY: as in `in_table`; a name added later can only have a value if the dict has one item more.
        places.len() <= LARGEST
            && unsafe {
                self.record(table.items(), table.items().read()) && places.into_iter().all(|place| self.record(place, place.read()))
            }
    }

    /// Records that a dict has not changed; returns false if that is not possible. `exact`: its type is already certain.
    pub(super) fn dict_state(&mut self, spot: &Spot<'py>, exact: bool) -> bool {
        let Some(offset) = self.abi.dict_version_offset() else { return false };
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

    /// Records a dict's content and order; returns false if that is not possible.
    pub fn dict_unchanged(&mut self, spot: &Spot<'py>) -> bool {
        // An OrderedDict keeps its order elsewhere.
        let ordered = spot.object.cast::<PyDict>().is_ok_and(|dict| iterates_as_dict(dict).unwrap_or(false));
        ordered && (self.dict_state(spot, false) || self.table_content(spot, true))
    }

    /// Records a dict's content, not its order; returns false if that is not possible.
    pub fn dict_content(&mut self, spot: &Spot<'py>) -> bool {
        self.shared_content(spot) || self.dict_state(spot, false) || self.table_content(spot, false)
    }

    /// Looks a key up in a dict whose state is recorded.
    pub(super) fn in_dict(
        &mut self,
        spot: &Spot<'py>,
        exact: bool,
        look: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Reached<'py>> {
        let Ok(dict) = spot.object.cast::<PyDict>() else { return Ok(Reached::unproven(None)) };
        let before = dict_version(self.abi, dict);
        let object = look(dict)?;
        // A key's own `__eq__` may have changed the dict.
        let proven = before == dict_version(self.abi, dict) && self.dict_state(spot, exact);
        Ok(Reached { object, proof: if proven { Proof::Object } else { Proof::None } })
    }

    /// Steps to the value under a key, as `dict` itself finds it.
    ///
    /// # Errors
    /// Returns an exception raised by hashing or comparing the key.
    pub fn dict_item(&mut self, spot: &Spot<'py>, key: &Bound<'py, PyAny>) -> PyResult<Reached<'py>> {
        if let Ok(name) = key.cast_exact::<PyString>()
            && let Some(reached) = self.shared_value(spot, name)?
        {
            return Ok(reached);
        }
        if (key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>())
            && let Some(reached) = self.in_table(spot, false, key)?
        {
            return Ok(reached);
        }
        self.in_dict(spot, false, |dict| get_item(dict, key))
    }

    /// Steps to the key or the value at a position.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn dict_entry(&mut self, spot: &Spot<'py>, position: usize, value: bool) -> PyResult<Reached<'py>> {
        let Ok(dict) = spot.object.cast::<PyDict>() else { return Ok(Reached::unproven(None)) };
        if iterates_as_dict(dict)? {
            if let Some(table) = self.table(spot, false).filter(Table::is_ordered) {
                let Some((key, place)) = table.entry(self.py, position) else { return Ok(Reached::unproven(None)) };
                if !value {
                    return Ok(Reached { object: Some(key), proof: Proof::Object });
                }
                let object = get_item(dict, &key)?;
                let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
                // SAFETY: as in `in_table`.
                let proven = unsafe { self.record(place, expected) };
                return Ok(Reached { object, proof: if proven { Proof::Address } else { Proof::None } });
            }
            // pyo3 iterates over a dict as C does.
            let entry = |dict: &Bound<'py, PyDict>| Ok(dict.iter().nth(position).map(|(k, v)| if value { v } else { k }));
            return self.in_dict(spot, false, entry);
        }
        // In the order given by a C subclass.
        let list = if value { dict.call_method0("values")? } else { dict.call_method0("keys")? };
        Ok(Reached::unproven(list.try_iter()?.nth(position).transpose()?))
    }

    /// Steps to the value that an instance stores under a name.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn instance_attr(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Reached<'py>> {
        let Some((dict, proof)) = self.instance_dict(spot)? else {
            let proof = if self.class(spot) { Proof::Object } else { Proof::None };
            return Ok(Reached { object: None, proof });
        };
        let dict = Spot { object: dict, proof };
        if let Some(reached) = self.shared_value(&dict, name)? {
            return Ok(reached);
        }
        if let Some(reached) = self.in_table(&dict, true, name)? {
            return Ok(reached);
        }
        self.in_dict(&dict, true, |dict| get_item(dict, name))
    }

    /// Returns the dict of an instance; creates it from inline values. Returns None if its class does not give it a dict.
    pub(super) fn instance_dict(&mut self, spot: &Spot<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Proof)>> {
        let class = spot.object.get_type();
        let managed = types::has_managed_dict(&class);
        let offset: isize = if managed { offsets::MANAGED_DICT } else { types::dict_offset(&class) };
        if offset == 0 {
            return Ok(None);
        }
        // SAFETY: the object is alive and has a dict; a new reference, or NULL with an exception.
        let dict =
            unsafe { Bound::from_owned_ptr_or_err(self.py, ffi::PyObject_GenericGetDict(spot.object.as_ptr(), std::ptr::null_mut())) }?;
        // A negative offset counts from the end of a variable-size object.
        let known = (managed || offset > 0) && self.class(spot);
        // SAFETY: the class is recorded and determines where its instances keep their dict.
        let proven = known && unsafe { self.word(spot, offset, dict.as_ptr() as usize) };
        if proven {
            self.shares_values(spot, &dict);
        }
        Ok(Some((dict, if proven { Proof::Address } else { Proof::None })))
    }

    /// `object.__dict__`
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn dict_of(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        // C code with its own attribute lookup may return a different result the next time.
        if types::is_generic_past_python(&spot.object.get_type())?
            && self.has_plain_dict(spot)
            && let Some((dict, proof)) = self.instance_dict(spot)?
        {
            return Ok(Reached { object: Some(dict), proof });
        }
        self.attribute(spot, pyo3::intern!(self.py, "__dict__"))
    }

    /// Steps to the attribute of an object, without proof. A `__getattribute__` written in Python is bypassed: the capture has traced into
    /// it, and guards what it reads.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn attribute(&self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Reached<'py>> {
        match types::attribute_past_python(&spot.object, name) {
            Ok(value) => Ok(Reached::unproven(Some(value))),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(self.py) => Ok(Reached::unproven(None)),
            Err(error) => Err(error),
        }
    }

    /// `object.__class__`
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn class_of(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        let object = match spot.object.getattr(pyo3::intern!(self.py, "__class__")) {
            Ok(object) => object,
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(self.py) => return Ok(Reached::unproven(None)),
            Err(error) => return Err(error),
        };
        let names = [pyo3::intern!(self.py, "__getattribute__"), pyo3::intern!(self.py, "__class__")];
        let ordinary = names.into_iter().all(|name| self.inherits(spot, name)) && object.is(spot.object.get_type());
        Ok(if ordinary { self.type_of(spot) } else { Reached::unproven(Some(object)) })
    }

    /// Returns true if the class of an object inherits an attribute from `object` itself.
    fn inherits(&self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> bool {
        let general = types::lookup(self.abi, &self.py.get_type::<PyAny>(), name);
        let own = types::lookup(self.abi, &spot.object.get_type(), name);
        general.zip(own).is_some_and(|(general, own)| general.is(&own))
    }

    /// Returns true if `__dict__` of an instance is the descriptor that CPython gives every class with instance dicts.
    pub(super) fn has_plain_dict(&self, spot: &Spot<'py>) -> bool {
        let found = types::lookup(self.abi, &spot.object.get_type(), pyo3::intern!(self.py, "__dict__"));
        found.is_some_and(|found| kind::is_getset_descriptor(&found))
    }

    /// Steps to the value in a slot of an instance.
    ///
    /// # Errors
    /// If the class does not have this slot.
    pub fn slot(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Reached<'py>> {
        let class = spot.object.get_type();
        let descriptor = types::lookup(self.abi, &class, name).filter(kind::is_member_descriptor);
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
            let member = descriptor.as_ptr().byte_add(offsets::MEMBER).cast::<*const u8>().read();
            member.add(offsets::MEMBER_OFFSET).cast::<isize>().read_unaligned()
        };
        if offset < 16 || offset % 8 != 0 {
            return Ok(Reached::unproven(object));
        }
        // SAFETY: the class is recorded and its instances have this slot.
        let proof = unsafe { self.pointer(spot, offset as usize, object.as_ref()) };
        Ok(Reached { object, proof })
    }

    /// Steps to the attribute of a class or its bases under a name.
    pub fn type_attr(&mut self, spot: &Spot<'py>, name: &Bound<'py, PyString>) -> Reached<'py> {
        let Ok(class) = spot.object.cast::<PyType>() else { return Reached::unproven(None) };
        let object = types::lookup(self.abi, class, name.as_any());
        let proven = self.trail.is_some() && spot.proof != Proof::None && self.tag(class);
        Reached { object, proof: if proven { Proof::Object } else { Proof::None } }
    }

    /// Steps to the MRO of a class.
    pub fn mro(&mut self, spot: &Spot<'py>) -> Reached<'py> {
        let Ok(class) = spot.object.cast::<PyType>() else { return Reached::unproven(None) };
        let object = Some(class.mro().into_any());
        let proven = self.trail.is_some() && spot.proof != Proof::None && self.tag(class);
        Reached { object, proof: if proven { Proof::Object } else { Proof::None } }
    }

    /// `class.__name__`. For a class created in Python, `tp_name` points into this very string.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn class_name(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        let name = pyo3::intern!(self.py, "__name__");
        let reached = self.attribute(spot, name)?;
        let (Ok(class), Some(text)) = (spot.object.cast::<PyType>(), &reached.object) else { return Ok(reached) };
        let general = self.py.get_type::<PyType>();
        let ordinary = [name, pyo3::intern!(self.py, "__getattribute__")].into_iter().all(|name| {
            let (own, general) = (types::lookup(self.abi, &class.get_type(), name), types::lookup(self.abi, &general, name));
            own.zip(general).is_some_and(|(own, general)| own.is(&general))
        });
        let Ok(text) = text.cast_exact::<PyString>() else { return Ok(reached) };
        if !ordinary || types::flags(class) & types::HEAP_TYPE == 0 || !self.class(spot) {
            return Ok(reached);
        }
        let address = text.to_str()?.as_ptr() as usize;
        // SAFETY: the class of the class is recorded, and all classes have their name there.
        let proven = unsafe { self.word(spot, offsets::TYPE_NAME as isize, address) };
        if proven && let Some(trail) = &mut self.trail {
            trail.keep(text);
        }
        Ok(Reached { proof: if proven { Proof::Object } else { Proof::None }, ..reached })
    }

    /// Steps to the class of an object.
    pub fn type_of(&mut self, spot: &Spot<'py>) -> Reached<'py> {
        let proof = if self.class(spot) { Proof::Address } else { Proof::None };
        Reached { object: Some(spot.object.get_type().into_any()), proof }
    }
}

pub(super) fn get_item<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    dict.get_item(key)
}
