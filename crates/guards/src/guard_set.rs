//! The finished guard set.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use dynamlir_cpython_abi::{Abi, abi};
use dynamlir_torch_abi::State as TorchState;
use dynamlir_trails::Pins;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use smallvec::SmallVec;

use crate::{
    GuardError,
    abc_registrations::Registered,
    builder::State,
    check::Run,
    explain::Texts,
    relation::Related,
    remembered_checks::{Memos, Remembered},
    tensor::TensorMatch,
    tree::{FUNCTION, PreparedGuard, Tree},
};

/// The roots of paths: the frame at the call of its function.
#[derive(Clone, Copy)]
pub struct Roots<'a, 'py> {
    /// The function, for its globals, builtins and closure.
    pub function: &'a Bound<'py, PyAny>,
    /// The values of the parameters, in the order of the frame's slots; None for an unbound one.
    pub locals: &'a [Option<&'a Bound<'py, PyAny>>],
}

/// The objects that a check collects: the graph's tensors first. Kept by the caller between calls, so that it is allocated once.
#[derive(Default)]
pub struct Inputs<'py> {
    pub(crate) values: SmallVec<[Option<Bound<'py, PyAny>>; 12]>,
    /// References taken on the way.
    pub(crate) passing: Vec<Option<Bound<'py, PyAny>>>,
    /// True if Python code may have run during the check.
    pub(crate) disturbed: bool,
}

impl<'py> Inputs<'py> {
    /// Returns the tensors of the graph, in the order in which they were first given to [`crate::GuardBuilder::collect`].
    #[must_use]
    pub fn tensors(&self, count: usize) -> &[Option<Bound<'py, PyAny>>] {
        &self.values[..count.min(self.values.len())]
    }

    /// Returns true if the tensors still have the metadata that their guards have checked: no code that could have changed it ran since
    /// then, provided that the GIL was not released since the check.
    #[must_use]
    pub fn undisturbed(&self) -> bool {
        !self.disturbed
    }

    /// Releases all objects; keeps the memory.
    pub fn clear(&mut self) {
        self.disturbed = false;
        self.values.clear();
        self.passing.clear();
    }
}

/// The outcome of a check.
#[derive(Debug)]
pub enum Checked {
    /// Everything is as at the capture.
    Pass,
    /// Something differs.
    Fail,
    /// Python code that had to be run raised this exception.
    Error(PyErr),
}

/// The guards of one capture. See the crate's documentation.
pub struct GuardSet {
    pub(crate) tree: Tree,
    pub(crate) relations: Vec<Related>,
    pub(crate) pins: Pins,
    pub(crate) torch: Option<TorchState>,
    pub(crate) abi: &'static Abi,
    /// Torch's modes at the capture, outermost first: function modes, then dispatch modes.
    pub(crate) modes: Vec<crate::identity_pins::Held>,
    /// The answers of abstract base classes.
    pub(crate) registered: Registered,
    /// True if a caller must be handling an exception, false if it must not; None if this decides nothing.
    pub(crate) handled: Option<bool>,
    /// The memory of passing checks.
    memos: Mutex<Memos>,
    /// The index among the tree's locals of the one that failed in the last failing check. It is checked first: the value that
    /// distinguishes a layer from others is then found fast.
    telling: AtomicUsize,
    /// For people to read.
    pub(crate) texts: Arc<Texts>,
    inputs: usize,
    outputs: usize,
}

impl GuardSet {
    pub(crate) fn new(py: Python<'_>, state: State) -> Result<Self, GuardError> {
        let abi = abi(py).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
        let pins = Pins::new(py)?;
        let tree = Tree::new(py, &pins, &state)?;
        let relations = state.relations.iter().map(|relation| Related::new(relation, &tree, &state.sources)).collect();
        let outputs = tree.nodes.iter().filter(|node| node.output.is_some()).count();
        let modes = match &state.torch {
            Some(torch) => {
                crate::check::modes(py, torch)?.iter().map(|mode| crate::identity_pins::Held::new(&pins, mode)).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        };
        let registered = Registered::new(py, &state.registered)?;
        let words = registered.texts().map(str::to_owned).collect();
        Ok(Self {
            memos: Mutex::new(Memos::new(tree.segments)),
            telling: AtomicUsize::new(0),
            inputs: state.collected.len(),
            registered,
            relations,
            pins,
            torch: state.torch,
            handled: state.handled,
            texts: Arc::new(Texts::new(py, state, words)),
            abi,
            modes,
            outputs,
            tree,
        })
    }

    /// Returns true if it can ever pass again: false once an object that it holds weakly has died.
    #[must_use]
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.pins.alive()
    }

    /// Makes it fail from now on.
    pub fn invalidate(&self) {
        self.pins.kill();
    }

    /// Returns the number of tensors that a passing check collects for the graph.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs
    }

    /// Returns the slot in which a passing check puts the object that a source reaches, if it does.
    pub(crate) fn place_of(&self, source: crate::SourceId) -> Option<usize> {
        self.tree.of_source.get(&source).and_then(|node| self.tree.nodes[*node].output)
    }

    /// Returns the guards on the tensors that a passing check collects for the graph; None for a tensor without exactly one such guard.
    #[must_use]
    pub fn tensor_guards(&self) -> Vec<Option<&TensorMatch>> {
        let mut found = vec![None; self.inputs];
        for node in &self.tree.nodes {
            let mut tensors = node.checks.iter().filter_map(|&check| match self.tree.checks[check].1 {
                PreparedGuard::Tensor(expected) => Some(&self.tree.tensors[expected]),
                _ => None,
            });
            if let (Some(place), Some(expected), None) = (node.output.and_then(|at| found.get_mut(at)), tensors.next(), tensors.next()) {
                *place = Some(expected);
            }
        }
        found
    }

    /// Returns a summary of the memory of passing checks.
    #[must_use]
    pub fn remembered(&self) -> Remembered {
        self.memos.try_lock().map(|memos| memos.summary(self)).unwrap_or_default()
    }

    /// Returns a path that leads to a node, or through it.
    pub(crate) fn path_to(&self, node: usize) -> String {
        let below = |mut at: usize| loop {
            if at == node {
                return true;
            }
            match self.tree.nodes[at].parent {
                Some(parent) => at = parent,
                None => return false,
            }
        };
        let guard = self.tree.checks.iter().position(|(at, _)| below(*at));
        guard.and_then(|guard| self.texts.source(guard)).unwrap_or_else(|| "?".to_owned())
    }

    /// Checks all guards. If they pass, `inputs` contains the graph's tensors.
    pub fn check<'py>(&self, roots: Roots<'_, 'py>, inputs: &mut Inputs<'py>) -> Checked {
        inputs.clear();
        if !self.is_valid() || self.torch.as_ref().is_some_and(|state| !state.holds()) {
            return Checked::Fail;
        }
        if self.handled.is_some_and(|expected| expected != crate::check::handles_an_exception(roots.function.py())) {
            return Checked::Fail;
        }
        inputs.values = SmallVec::from_elem(None, self.outputs);
        match self.verify(roots, inputs) {
            // Python code that ran meanwhile may have caused an object to die.
            Ok(true) if self.is_valid() => Checked::Pass,
            Ok(_) => Checked::Fail,
            Err(error) => Checked::Error(error),
        }
    }

    fn verify<'py>(&self, roots: Roots<'_, 'py>, inputs: &mut Inputs<'py>) -> PyResult<bool> {
        // The memory may be in use by another thread, or by this one further up the stack: then nothing is remembered this time.
        let mut kept = if self.tree.remembers() { self.memos.try_lock().ok() } else { None };
        let mut run = Run::new(self, roots.function.py(), kept.as_deref_mut(), inputs);
        let telling = self.telling.load(Ordering::Relaxed);
        let locals = self.tree.locals.iter().enumerate();
        let others = locals.clone().filter(|(at, _)| *at != telling);
        for (at, &(slot, node)) in locals.skip(telling).take(1).chain(others) {
            if !run.root(node, roots.locals.get(slot).copied().flatten())? {
                self.telling.store(at, Ordering::Relaxed);
                return Ok(false);
            }
        }
        if !self.tree.nodes[FUNCTION].children.is_empty() && !run.root(FUNCTION, Some(roots.function))? {
            return Ok(false);
        }
        // Reading the active modes runs Python code.
        inputs.disturbed |= !self.modes.is_empty();
        if !self.modes.is_empty() && !crate::check::same_modes(roots.function.py(), self)? {
            return Ok(false);
        }
        if !self.registered.is_empty() && !self.registered.current(roots.function.py())? {
            inputs.disturbed = true;
            if self.registered.changed(roots.function.py())?.is_some() {
                return Ok(false);
            }
        }
        for relation in &self.relations {
            if !relation.holds(roots.function.py(), &inputs.values)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
