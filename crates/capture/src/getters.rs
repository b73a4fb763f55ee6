//! `operator.itemgetter`, `attrgetter` and `methodcaller`: what they look up is looked up here, where it is guarded and recorded.

use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    calls::Keywords,
    kinds::Kind,
    state::{Capture, Outcome, Tracked},
};

impl<'py> Capture<'py> {
    /// `getter(value)`.
    pub(crate) fn call_getter(&self, getter: &Tracked<'py>, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &getter.object;
        if let Some(source) = self.source(getter) {
            self.pin_native(object, source)?;
        }
        // They do not change, and pickling says what they are made of.
        let (made_by, given): (Bound<'py, PyAny>, Bound<'py, PyTuple>) =
            dynamlir_interpreter::suspended(|| object.call_method0("__reduce__"))?.extract()?;
        let given = given.iter().map(|part| self.wrap_untracked(part)).collect::<Outcome<Vec<_>>>()?;
        match self.effects.kinds.of(object) {
            Kind::ItemGetter => self.each(&given, |key| self.get_item(value, key)),
            Kind::AttrGetter => self.each(&given, |path| {
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

    /// What is found for one, or a tuple of what is found for each.
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
