//! The steps after the graph that change containers.

use dynamlir_frame::{AfterGraph, Recipe};
use pyo3::{
    prelude::*,
    types::{PyInt, PyList, PySlice, PyString},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    floors::{Recipes, Writes},
    graph_break::{Outcome, reason},
    objects::{Tracked, contents::is_deque},
    state::{Written, WrittenKind, outputs::Outputs},
    values::is_operator::is_nan,
};

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Identifies a key of a dict: text and integers by value, as guards do, and other keys by address. An existing key stays in place of an
/// equal one that the program has put there.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Int(i64),
    Object(usize),
}

impl Key {
    fn of(key: &Bound<'_, PyAny>) -> Self {
        let text = key.cast_exact::<PyString>().ok().and_then(|text| text.to_str().ok());
        let int = key.cast_exact::<PyInt>().ok().and_then(|int| int.extract().ok());
        let object = || Self::Object(key.as_ptr() as usize);
        text.map(|text| Self::Text(text.to_owned())).or(int.map(Self::Int)).unwrap_or_else(object)
    }
}

impl<'py> Writes<'py> {
    /// Returns true if a value in a copy represents the original value in the container.
    fn stands_for(&self, value: &Bound<'py, PyAny>, original: &Bound<'py, PyAny>) -> bool {
        value.is(original)
            || self.real_of(value).is_some_and(|(real, _)| real.is(original))
            || self.original(value).is_some_and(|(known, _)| known.is(original))
    }
}

impl<'py> Recipes<'py> {
    /// The steps after the graph that change a container.
    pub(in crate::heap) fn change_steps(&self, written: &Written, outputs: &mut Outputs<'py>) -> Outcome<Vec<AfterGraph>> {
        let container = written.owner.bind(self.py);
        let target = || Recipe::Input(self.guards.collect(written.source));
        let method = |name: &str| -> PyResult<Py<PyAny>> { Ok(container.get_type().getattr(name)?.unbind()) };
        if written.kind == WrittenKind::Call {
            let mut given = vec![target()];
            if let Some(key) = &written.key {
                given.push(self.key_recipe(key.bind(self.py), outputs)?);
            }
            if let Some(value) = written.tracked(self.py) {
                given.push(self.recipe(&value, outputs)?);
            }
            return Ok(vec![AfterGraph::Call { method: method(&written.name)?, given }]);
        }
        let Some(copy) = self.changed(container)? else { return Ok(Vec::new()) };
        if let Ok(list) = copy.cast_exact::<PyList>() {
            let whole = PySlice::full(self.py).into_any().unbind();
            let items = list.iter().map(|item| self.recipe(&Tracked::new(item), outputs)).collect::<Outcome<_>>()?;
            let given = vec![target(), Recipe::Constant(whole), Recipe::List(items)];
            return Ok(vec![AfterGraph::Call { method: method("__setitem__")?, given }]);
        }
        if is_deque(&copy)? && written.name == "__setitem__" {
            let pairs = container.try_iter()?.zip(copy.try_iter()?).enumerate();
            let mut steps = Vec::new();
            for (at, (was, item)) in pairs {
                let (was, item) = (was?, item?);
                if !self.stands_for(&item, &was) {
                    let at = Recipe::Constant(PyInt::new(self.py, at).into_any().unbind());
                    let given = vec![target(), at, self.recipe(&Tracked::new(item), outputs)?];
                    steps.push(AfterGraph::Call { method: method("__setitem__")?, given });
                }
            }
            return Ok(steps);
        }
        if is_deque(&copy)? {
            let items = copy.try_iter()?.map(|item| self.recipe(&Tracked::new(item?), outputs)).collect::<Outcome<_>>()?;
            return Ok(vec![
                AfterGraph::Call { method: method("clear")?, given: vec![target()] },
                AfterGraph::Call { method: method("extend")?, given: vec![target(), Recipe::List(items)] },
            ]);
        }
        // Items that stay the same are left alone: other code may be iterating over the dict.
        let before: Vec<Pair<'py>> = pairs(container)?;
        let after: Vec<Pair<'py>> = pairs(&copy)?;
        let had: FxHashMap<Key, &Bound<'py, PyAny>> = before.iter().map(|(key, value)| (Key::of(key), value)).collect();
        let has: FxHashSet<Key> = after.iter().map(|(key, _)| Key::of(key)).collect();
        let (stays, gone): (Vec<_>, Vec<_>) = before.iter().map(|(key, _)| key).partition(|key| has.contains(&Key::of(key)));
        let in_order = stays.iter().zip(&after).all(|(key, (known, _))| Key::of(key) == Key::of(known));
        let mut steps = Vec::new();
        if in_order {
            for key in gone {
                let given = vec![target(), self.key_recipe(key, outputs)?];
                steps.push(AfterGraph::Call { method: method("__delitem__")?, given });
            }
        } else {
            steps.push(AfterGraph::Call { method: method("clear")?, given: vec![target()] });
        }
        for (key, value) in &after {
            if in_order && had.get(&Key::of(key)).is_some_and(|was| self.stands_for(value, was)) {
                continue;
            }
            let given = vec![target(), self.key_recipe(key, outputs)?, self.recipe(&Tracked::new(value.clone()), outputs)?];
            steps.push(AfterGraph::Call { method: method("__setitem__")?, given });
        }
        Ok(steps)
    }

    /// Returns the recipe of a key. A guard identifies `nan` by its value, a dict by its identity.
    fn key_recipe(&self, key: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        if is_nan(key) {
            return self.break_graph(reason::UNGUARDABLE, "something is put under nan, which is found by what object it is");
        }
        self.recipe(&Tracked::new(key.clone()), outputs)
    }
}

fn pairs<'py>(dict: &Bound<'py, PyAny>) -> PyResult<Vec<Pair<'py>>> {
    dict.call_method0("items")?.try_iter()?.map(|pair| pair?.extract()).collect()
}
