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
    builder::State,
    check::Run,
    explain::Texts,
    memo::{Memos, Remembered},
    registered::Registered,
    relation::Related,
    tensor::TensorMatch,
    tree::{Check, FUNCTION, Tree},
};

/// Where the paths begin: the frame as its function was called.
#[derive(Clone, Copy)]
pub struct Roots<'a, 'py> {
    /// The function, for its globals, builtins and closure.
    pub function: &'a Bound<'py, PyAny>,
    /// Values of the parameters, in the order of the frame's slots; None for one that is unbound.
    pub locals: &'a [Option<&'a Bound<'py, PyAny>>],
}

/// What a check collects: the graph's tensors first. Kept by the caller between calls, so that it is allocated once.
#[derive(Default)]
pub struct Inputs<'py> {
    pub(crate) values: SmallVec<[Option<Bound<'py, PyAny>>; 12]>,
    /// References taken on the way.
    pub(crate) passing: Vec<Option<Bound<'py, PyAny>>>,
    /// Whether Python code may have run during the check.
    pub(crate) disturbed: bool,
}

impl<'py> Inputs<'py> {
    /// The tensors of the graph, in the order in which they were first given to [`crate::GuardBuilder::collect`].
    #[must_use]
    pub fn tensors(&self, count: usize) -> &[Option<Bound<'py, PyAny>>] {
        &self.values[..count.min(self.values.len())]
    }

    /// Whether the tensors still have the metadata that their guards have seen: nothing ran between the look at them and now that
    /// could have changed it, as long as the interpreter's lock was not given away since the check.
    #[must_use]
    pub fn undisturbed(&self) -> bool {
        !self.disturbed
    }

    /// Lets go of all objects; keeps the memory.
    pub fn clear(&mut self) {
        self.disturbed = false;
        self.values.clear();
        self.passing.clear();
    }
}

/// How a check ended.
#[derive(Debug)]
pub enum Checked {
    /// Everything is as it was captured.
    Pass,
    /// Something is not.
    Fail,
    /// Python code that had to be run raised.
    Error(PyErr),
}

/// The guards of one capture. See the crate's documentation.
pub struct GuardSet {
    pub(crate) tree: Tree,
    pub(crate) relations: Vec<Related>,
    pub(crate) pins: Pins,
    pub(crate) torch: Option<TorchState>,
    pub(crate) abi: &'static Abi,
    /// Torch's modes when it was captured, outermost first: functions', then dispatch's.
    pub(crate) modes: Vec<crate::held::Held>,
    /// What abstract base classes answered.
    pub(crate) registered: Registered,
    /// Whether a caller must, or must not, handle an exception; None where that decides nothing.
    pub(crate) handled: Option<bool>,
    /// What is remembered of checks that passed.
    memos: Mutex<Memos>,
    /// The place among the tree's locals of the one that did not hold when a check failed the last time. It is asked first: what one layer
    /// is told from others by is told fast.
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
                crate::check::modes(py, torch)?.iter().map(|mode| crate::held::Held::new(&pins, mode)).collect::<Result<_, _>>()?
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

    /// Whether it can ever pass again: false once something that it holds weakly has died.
    #[must_use]
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.pins.alive()
    }

    /// Makes it fail from now on.
    pub fn invalidate(&self) {
        self.pins.kill();
    }

    /// How many tensors a passing check collects for the graph.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs
    }

    /// Where a passing check puts what a source reaches, if it does.
    pub(crate) fn place_of(&self, source: crate::SourceId) -> Option<usize> {
        self.tree.of_source.get(&source).and_then(|node| self.tree.nodes[*node].output)
    }

    /// What is guarded of the tensors that a passing check collects for the graph; None where it is more or less than one thing.
    #[must_use]
    pub fn tensor_guards(&self) -> Vec<Option<&TensorMatch>> {
        let mut found = vec![None; self.inputs];
        for node in &self.tree.nodes {
            let mut tensors = node.checks.iter().filter_map(|&check| match self.tree.checks[check].1 {
                Check::Tensor(expected) => Some(&self.tree.tensors[expected]),
                _ => None,
            });
            if let (Some(place), Some(expected), None) = (node.output.and_then(|at| found.get_mut(at)), tensors.next(), tensors.next()) {
                *place = Some(expected);
            }
        }
        found
    }

    /// What is remembered of checks that passed.
    #[must_use]
    pub fn remembered(&self) -> Remembered {
        self.memos.try_lock().map(|memos| memos.summary(self)).unwrap_or_default()
    }

    /// A path that leads to a node, or through it.
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

    /// Whether all guards hold. If so, `inputs` has the graph's tensors.
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
            // Python code that ran meanwhile may have let something die.
            Ok(true) if self.is_valid() => Checked::Pass,
            Ok(_) => Checked::Fail,
            Err(error) => Checked::Error(error),
        }
    }

    fn verify<'py>(&self, roots: Roots<'_, 'py>, inputs: &mut Inputs<'py>) -> PyResult<bool> {
        // Taken by another thread, or by this one further up the stack: then nothing is remembered this time.
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
        // Which modes are active is asked in Python.
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
