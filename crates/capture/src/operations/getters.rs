//! `operator.itemgetter`, `attrgetter` and `methodcaller`: their lookups are done here, where they are guarded and recorded.

use dynamlir_guards::Source;
use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple, PyType},
};

use crate::{
    floors::Operations,
    graph_break::Outcome,
    objects::{
        Tracked,
        callable_kinds::CallableKind,
        callables::{Keywords, receiver},
        lookup::lookup,
    },
};

impl<'py> Operations<'py> {
    /// `getter(value)`.
    pub(crate) fn call_getter(&self, getter: &Tracked<'py>, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &getter.object;
        if let Some(source) = self.source(getter) {
            self.pin_native(object, source)?;
        }
        // Getters do not change, and their pickled form has the arguments that they were created with.
        let (made_by, given): (Bound<'py, PyAny>, Bound<'py, PyTuple>) =
            dynamlir_interpreter::suspended(|| object.call_method0("__reduce__"))?.extract()?;
        let given = given.iter().map(|part| self.wrap_untracked(part)).collect::<Outcome<Vec<_>>>()?;
        match self.effects.kinds.of(object) {
            CallableKind::ItemGetter => self.each(&given, |key| self.get_item(value, key)),
            CallableKind::AttrGetter => self.each(&given, |path| {
                let path: String = path.object.extract()?;
                path.split('.').try_fold(value.clone(), |owner, name| self.load_attr(&owner, &PyString::new(self.py, name)))
            }),
            _ => {
                let mut named: Keywords<'py> = Vec::new();
                let mut given = &given[..];
                let name = if let Some(keywords) = made_by.getattr_opt("keywords")? {
                    // `partial(methodcaller, name, **keywords)`
                    for (name, value) in keywords.cast::<PyDict>().map_err(PyErr::from)? {
                        named.push((name.extract()?, self.wrap_untracked(value)?));
                    }
                    made_by.getattr("args")?.get_item(0)?
                } else {
                    let name = given[0].object.clone();
                    given = &given[1..];
                    name
                };
                let method = self.load_attr(value, name.cast::<PyString>().map_err(PyErr::from)?)?;
                self.call(&method, given, &named)
            }
        }
    }

    /// `descriptor.__get__(owner)`, for an attribute that C code reads: the owner's attribute under its name, if this descriptor provides
    /// it.
    pub(crate) fn get_by(&self, bound: &Bound<'py, PyAny>, owner: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let Some(descriptor) = receiver(bound) else { return self.stop_at_unknown(bound) };
        let name = descriptor.getattr("__name__")?.cast_into::<PyString>().map_err(PyErr::from)?;
        if let Some(source) = self.source_of(&descriptor) {
            // A class has one descriptor of a name, and weak references to descriptors do not exist.
            self.pin_type(&descriptor, source)?;
            self.guarded(self.guards.equals(self.guards.source(Source::GetAttr(source, "__name__".into())), &name))?;
            self.pin(&descriptor.getattr("__objclass__")?, self.guards.source(Source::GetAttr(source, "__objclass__".into())))?;
        }
        let is_its =
            |class: &Bound<'py, PyType>| -> Outcome<bool> { Ok(lookup(class, name.to_str()?)?.is_some_and(|found| found.is(&descriptor))) };
        if self.torch.is_fake(&owner.object) {
            let class = self.tensor_class()?.cast_into::<PyType>().map_err(PyErr::from)?;
            return if is_its(&class)? { self.tensor_attr(&owner.object, &name) } else { self.stop_at_unknown(bound) };
        }
        if !is_its(&owner.object.get_type())? {
            // The owner's class hides it.
            return self.stop_at_unknown(bound);
        }
        match self.named_source(&owner.object)? {
            Some(source) => {
                let at = self.guards.type_attr(self.class_source(&owner.object, source)?, name.to_str()?);
                self.pin_descriptor(&owner.object.get_type(), &descriptor, at)?;
                self.data_attr(&owner.object, source, &name, &descriptor)
            }
            None => self.load_attr(owner, &name),
        }
    }

    /// Returns the result for a single key, or a tuple of the results for several.
    fn each(&self, asked: &[Tracked<'py>], find: impl Fn(&Tracked<'py>) -> Outcome<Tracked<'py>>) -> Outcome<Tracked<'py>> {
        if let [one] = asked {
            return find(one);
        }
        let mut found = Vec::with_capacity(asked.len());
        for one in asked {
            let value = find(one)?;
            self.guard_value(&value)?;
            found.push(value.object);
        }
        Ok(Tracked::new(PyTuple::new(self.py, found)?.into_any()))
    }
}
