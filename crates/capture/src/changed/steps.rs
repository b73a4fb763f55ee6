//! The steps after the graph that change containers.

use dynamlir_frame::{AfterGraph, Recipe};
use pyo3::{
    prelude::*,
    types::{PyList, PySlice},
};

use crate::{
    outputs::Outputs,
    state::{Capture, Outcome, Tracked, Written, WrittenKind},
};

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl<'py> Capture<'py> {
    /// The steps after the graph that change a container.
    pub(crate) fn change_steps(&self, written: &Written, outputs: &mut Outputs<'py>) -> Outcome<Vec<AfterGraph>> {
        let container = written.owner.bind(self.py);
        let target = || Recipe::Input(self.guards.collect(written.source));
        let method = |name: &str| -> PyResult<Recipe> { Ok(Recipe::Constant(container.get_type().getattr(name)?.unbind())) };
        if written.kind == WrittenKind::Call {
            let mut given = vec![target()];
            if let Some(key) = &written.key {
                given.push(self.recipe(&Tracked::new(key.bind(self.py).clone()), outputs)?);
            }
            if let Some(value) = written.tracked(self.py) {
                given.push(self.recipe(&value, outputs)?);
            }
            return Ok(vec![AfterGraph::Call { function: method(&written.name)?, given }]);
        }
        let Some(copy) = self.changed(container)? else { return Ok(Vec::new()) };
        if let Ok(list) = copy.cast_exact::<PyList>() {
            let whole = PySlice::full(self.py).into_any().unbind();
            let items = list.iter().map(|item| self.recipe(&Tracked::new(item), outputs)).collect::<Outcome<_>>()?;
            let given = vec![target(), Recipe::Constant(whole), Recipe::List(items)];
            return Ok(vec![AfterGraph::Call { function: method("__setitem__")?, given }]);
        }
        // What stays as it is is left alone: somebody may be iterating over it.
        let before: Vec<Pair<'py>> = pairs(container)?;
        let after: Vec<Pair<'py>> = pairs(&copy)?;
        let had = |key: &Bound<'py, PyAny>| before.iter().find(|(known, _)| known.is(key)).map(|(_, value)| value);
        let stays = before.iter().filter(|(key, _)| after.iter().any(|(known, _)| known.is(key))).map(|(key, _)| key);
        let in_order = stays.clone().zip(&after).all(|(key, (known, _))| key.is(known));
        let mut steps = Vec::new();
        if in_order {
            for (key, _) in before.iter().filter(|(key, _)| !after.iter().any(|(known, _)| known.is(key))) {
                let given = vec![target(), self.recipe(&Tracked::new(key.clone()), outputs)?];
                steps.push(AfterGraph::Call { function: method("__delitem__")?, given });
            }
        } else {
            steps.push(AfterGraph::Call { function: method("clear")?, given: vec![target()] });
        }
        for (key, value) in &after {
            if in_order && had(key).is_some_and(|was| self.stands_for(value, was)) {
                continue;
            }
            let given =
                vec![target(), self.recipe(&Tracked::new(key.clone()), outputs)?, self.recipe(&Tracked::new(value.clone()), outputs)?];
            steps.push(AfterGraph::Call { function: method("__setitem__")?, given });
        }
        Ok(steps)
    }

    /// Whether a value in a copy is what the container itself holds.
    fn stands_for(&self, value: &Bound<'py, PyAny>, original: &Bound<'py, PyAny>) -> bool {
        value.is(original)
            || self.real_of(value).is_some_and(|(real, _)| real.is(original))
            || self.original(value).is_some_and(|(known, _)| known.is(original))
    }
}

fn pairs<'py>(dict: &Bound<'py, PyAny>) -> PyResult<Vec<Pair<'py>>> {
    dict.call_method0("items")?.try_iter()?.map(|pair| pair?.extract()).collect()
}
