//! Code that runs when something dies which the frame has made: a `__del__`, what is left of a generator, weak-reference callbacks.
//!
//! What dies while the frame runs is seen: its code is interpreted like any other. What outlives the frame would run its code once,
//! at some later time, for all calls together; plain Python runs it for each. Such a frame is not captured, and what a capture leaves
//! behind that is given up, before the frame runs again, dies in silence.

use pyo3::prelude::*;

use crate::{
    attributes::lookup,
    graph_break::reason,
    state::{Capture, Outcome, Tracked, type_name},
};

impl<'py> Capture<'py> {
    /// After the frame: nothing of its own that is still alive may run code when it dies. That is seen to in any case; where there
    /// was something, the capture ends.
    pub(crate) fn outlived(&self) -> Outcome<()> {
        let Some(births) = &self.own.births else { return Ok(()) };
        let Some(objects) = births.with_finalizers(self.py) else {
            return self.break_graph(reason::SIDE_EFFECT, "the garbage collector has run during the call");
        };
        let mut found = None;
        for object in objects {
            if self.runs_code_when_it_dies(&object)? {
                births.defuse(&object);
                found.get_or_insert_with(|| type_name(&object));
                let born = self.progress.born(object.as_ptr() as usize);
                self.progress.doomed.set(self.progress.doomed.get().into_iter().chain(born).min());
            }
        }
        match found {
            Some(name) => self.break_graph(reason::SIDE_EFFECT, format!("a {name} outlives the call, and runs code when it dies")),
            None => Ok(()),
        }
    }

    fn runs_code_when_it_dies(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (types, inspect) = (dynamlir_cpython_abi::import(self.py, "types")?, dynamlir_cpython_abi::import(self.py, "inspect")?);
        let class = object.get_type();
        if class.is(&types.getattr("GeneratorType")?) {
            // One that has not begun, or that has ended, has nothing to clean up.
            return inspect.call_method1("getgeneratorstate", (object,))?.eq("GEN_SUSPENDED");
        }
        for (kind, frame) in [("CoroutineType", "cr_frame"), ("AsyncGeneratorType", "ag_frame")] {
            if class.is(&types.getattr(kind)?) {
                return Ok(!object.getattr(frame)?.is_none());
            }
        }
        // What FakeTensorMode keeps for each constant of the graph: its `__del__` touches nothing but torch's count.
        if class.is(&dynamlir_cpython_abi::import(self.py, "torch.multiprocessing.reductions")?.getattr("StorageWeakRef")?) {
            return Ok(false);
        }
        Ok(lookup(&class, "__del__")?.is_some())
    }

    /// Ends the capture where a weak reference is made that calls back: nobody knows when.
    pub(crate) fn refuse_callback(&self, args: &[Tracked<'py>]) -> Outcome<()> {
        if args.get(1).is_some_and(|callback| !callback.object.is_none()) {
            return self.break_graph(reason::SIDE_EFFECT, "a weak reference with a callback");
        }
        Ok(())
    }
}
