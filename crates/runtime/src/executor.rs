//! Runs a plan: inputs checked, steps executed, outputs built.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use dynamlir_torch_abi::{BelowAutograd, Device, Meta, NoGrad, OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::check::Check;
use crate::device::{Alignment, Code, Session};
use crate::effects::{self, Around};
use crate::externs::{self, ExternReport, Prepared, PythonCalls, PythonError};
use crate::layout::Layout;
use crate::lower::{ExternStep, Op, PlanError, Program, lower, lower_again};
use crate::outputs::{self, Outputs, Results, Views};
use crate::plan::{InputSpec, Plan};
use crate::profile::{self, About, Timed, Unwatched, Watch};
use crate::reuse::{Facts, Spent};
use crate::verify::{Inputs, Unfit, accepts, verify, verify_memory};
use crate::workspace::{Blocks, Pool, Workspace};

/// A failure inside a run.
pub struct Failure {
    /// The message; torch's own if torch refused.
    pub message: String,
    /// The op that failed, if one did.
    pub schema: Option<String>,
    /// The place of its call in the user's program.
    pub location: Option<String>,
    /// The Python exception, if there was one.
    pub payload: Option<Box<dyn Any + Send>>,
    /// True if it is about the address of an input: the code is correct, but does not support such a call.
    pub misaligned: bool,
}

/// The reason that a run returned no outputs.
pub enum RunError {
    /// The inputs do not match those for which the plan was created; nothing happened.
    Guard(Unfit),
    /// It failed before the commit: inputs are untouched and eager can run instead.
    Failed(Failure),
    /// It failed after the commit: inputs may be partly written.
    AfterCommit(Failure),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, failure) = match self {
            Self::Guard(unfit) => return write!(f, "inputs do not fit: {}", unfit.what),
            Self::Failed(failure) => ("failed", failure),
            Self::AfterCommit(failure) => ("failed after inputs were written", failure),
        };
        write!(f, "{what}: {}", failure.message)?;
        if let Some(schema) = &failure.schema {
            write!(f, " (in {schema}{})", failure.location.as_ref().map_or(String::new(), |l| format!(" at {l}")))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RunError {}

impl Failure {
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), schema: None, location: None, payload: None, misaligned: false }
    }

    pub(crate) fn misaligned(message: String) -> Self {
        Self { misaligned: true, ..Self::plain(message) }
    }
}

impl From<TorchError> for Failure {
    fn from(e: TorchError) -> Self {
        Self::plain(e.message())
    }
}

/// Checks the inputs and records the addresses of their elements.
type Verify = fn(&[InputSpec], &Program, &[TensorRef<'_>], &mut Inputs) -> Result<(), Unfit>;

/// Builds the outcome of a run.
type Make<T> = fn(&Executable, &mut Workspace, &[TensorRef<'_>]) -> Result<T, TorchError>;

/// A loaded plan. May be run by several threads at once; each run has a workspace of its own.
pub struct Executable {
    abi: &'static TorchAbi,
    plan: Plan,
    program: Program,
    code: Arc<Code>,
    alignments: Vec<Alignment>,
    externs: Vec<Arc<Prepared>>,
    /// True if a run may have to restore random state.
    has_surroundings: bool,
    /// True if torch would record operations of the steps for gradients.
    records: bool,
    pool: Pool,
    /// The memory shared with the executables of the same graph for other sizes.
    blocks: Option<Arc<Blocks>>,
    about: Arc<About>,
}

impl Executable {
    /// Checks and flattens a plan. `kernels` are those of `plan.kernels`, in order; `py` is queried for op signatures.
    pub fn new(abi: &'static TorchAbi, plan: Plan, kernels: impl Into<Code>, py: &mut dyn PythonCalls) -> Result<Self, PlanError> {
        let code = kernels.into();
        code.fits(&plan)?;
        let program = lower(&plan)?;
        if !program.checks.is_empty() && (plan.device != Device::Cpu || matches!(code, Code::Device(..))) {
            return Err(PlanError("a range check would have to wait for the device".to_owned()));
        }
        let mut prepared = |step: &ExternStep| Prepared::new(abi, plan.device, &plan.externs[step.call], step, py).map_err(PlanError);
        let externs: Vec<Arc<Prepared>> = program.externs.iter().map(|step| prepared(step).map(Arc::new)).collect::<Result<_, _>>()?;
        let about = Arc::new(About::new(timed(&plan, &externs)));
        abi.expect(plan.device);
        let alignments = code.alignments(&program);
        let has_surroundings = Around::is_needed(&plan);
        let records = !plan.requires_grad.is_empty() && !externs.is_empty();
        let code = Arc::new(code);
        Ok(Self { abi, plan, program, code, alignments, externs, has_surroundings, records, pool: Pool::default(), blocks: None, about })
    }

    /// Makes it share its workspace memory with executables created from it by [`Executable::again`].
    pub fn share_memory(&mut self) {
        self.blocks = Some(Arc::default());
    }

    /// Creates an executable for a plan that differs only in sizes: with the same code and, where their arguments are the same, the same
    /// calls. It reuses the memory of a program that is no longer needed, and its workspace, if there is one.
    pub(crate) fn again(
        &self,
        plan: Plan,
        facts: &Facts,
        (spent, workspace): (Program, Option<Box<Workspace>>),
    ) -> Result<Self, PlanError> {
        self.code.fits(&plan)?;
        let program = lower_again(&plan, facts, spent.emptied())?;
        let pool = Pool::default();
        workspace.and_then(|workspace| workspace.renewed(&program, plan.workspace_bytes)).into_iter().for_each(|one| pool.put(one));
        // The place of an operand may depend on sizes, but nothing for which a call was prepared.
        let form = |step: &ExternStep| (step.call, step.operand_types.clone(), step.outs.len(), step.results.len());
        if !program.externs.iter().map(form).eq(self.program.externs.iter().map(form)) {
            return Err(PlanError("the library is called otherwise for these sizes".to_owned()));
        }
        let prepared = |(step, known): (&ExternStep, &Arc<Prepared>)| {
            let (call, before) = (&plan.externs[step.call], &self.plan.externs[step.call]);
            if call.args == before.args {
                return Arc::clone(known);
            }
            Arc::new(known.again(self.abi, plan.device, call, step))
        };
        let externs = program.externs.iter().zip(&self.externs).map(prepared).collect();
        let (code, blocks, about) = (Arc::clone(&self.code), self.blocks.clone(), Arc::clone(&self.about));
        let alignments = code.alignments(&program);
        let Self { abi, has_surroundings, records, .. } = *self;
        Ok(Self { abi, plan, program, code, alignments, externs, has_surroundings, records, pool, blocks, about })
    }

    /// Returns its description in profiles.
    pub fn about(&self) -> &Arc<About> {
        &self.about
    }

    /// Returns its description in profiles, for adding details about its kernels; None once the description is shared.
    pub fn about_mut(&mut self) -> Option<&mut About> {
        Arc::get_mut(&mut self.about)
    }

    /// Returns the parts that another executable can reuse.
    pub(crate) fn spent(self) -> Spent {
        Spent { workspace: self.pool.take(), plan: self.plan, program: self.program }
    }

    /// Returns the plan it runs.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the route of each extern step, in order.
    pub fn extern_reports(&self) -> impl Iterator<Item = &ExternReport> {
        self.externs.iter().map(|e| &e.report)
    }

    /// Returns true if tensors with this metadata may be passed to [`Executable::run_known`]; None is unknown.
    #[must_use]
    pub fn accepts(&self, inputs: &[Option<&Meta>]) -> bool {
        accepts(self.abi, self.plan.device, &self.plan.inputs, inputs)
    }

    /// Runs it, with all effects of a call: random state around it, versions, bases of output views, and outputs created with grad mode
    /// off. Inputs are borrowed; tensors in the outputs are new. Values saved for backward are dropped.
    pub fn run(&self, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls) -> Result<Outputs, RunError> {
        self.run_verified(verify, inputs, py, Self::finish)
    }

    /// Runs it on inputs whose metadata was already checked: only their memory is checked.
    ///
    /// # Safety
    /// The inputs have exactly the metadata that [`Executable::accepts`] has approved.
    pub unsafe fn run_known(&self, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls) -> Result<Outputs, RunError> {
        self.run_verified(verify_memory, inputs, py, Self::finish)
    }

    /// Like [`Executable::run`], but returns the results, from which [`Executable::outputs`] builds the outputs. In between, they may
    /// become results of an autograd node.
    pub fn run_for_results(&self, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls) -> Result<Results, RunError> {
        self.run_verified(verify, inputs, py, Self::results)
    }

    /// Like [`Executable::run_for_results`], on inputs whose metadata was already checked.
    ///
    /// # Safety
    /// As for [`Executable::run_known`].
    pub unsafe fn run_known_for_results(&self, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls) -> Result<Results, RunError> {
        self.run_verified(verify_memory, inputs, py, Self::results)
    }

    /// Builds the outputs of a run from its results, under the thread's own grad mode. Some `views` may have been created before
    /// ([`Executable::view`]), by the positions of their outputs.
    pub fn outputs(&self, results: Results, views: Views, inputs: &[TensorRef<'_>]) -> Result<Outputs, RunError> {
        outputs::build(self.abi, &self.plan, &self.program, (results, views), inputs).map_err(|error| RunError::AfterCommit(error.into()))
    }

    /// Returns an output that is a view, for a run with these results. It is created under the thread's own grad mode, unless it is already
    /// among the `views`.
    ///
    /// # Errors
    ///
    /// If torch fails, or if the output is not a view.
    pub fn view<'a>(
        &self,
        output: usize,
        results: &Results,
        inputs: &[TensorRef<'_>],
        views: &'a mut Views,
    ) -> Result<TensorRef<'a>, TorchError> {
        if output >= self.plan.outputs.len() {
            return Err(TorchError::new("there is no such output"));
        }
        outputs::view(self.abi, &self.plan, &self.program, output, (results, inputs, views))
    }

    fn finish(&self, workspace: &mut Workspace, inputs: &[TensorRef<'_>]) -> Result<Outputs, TorchError> {
        if self.program.plain_outputs {
            return outputs::plain(&self.plan, &self.program, workspace);
        }
        outputs::build(self.abi, &self.plan, &self.program, (self.results(workspace, inputs)?, Views::new()), inputs)
    }

    fn results(&self, workspace: &mut Workspace, _: &[TensorRef<'_>]) -> Result<Results, TorchError> {
        outputs::results(self.abi, &self.plan, &self.program, workspace)
    }

    #[inline]
    fn run_verified<T>(&self, verify: Verify, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls, make: Make<T>) -> Result<T, RunError> {
        let around = if self.has_surroundings { Some(Around::enter(self.abi)?) } else { None };
        let outcome = self.run_inside(verify, inputs, py, make);
        if let Some(around) = around {
            around.leave(&outcome);
        }
        outcome
    }

    #[inline]
    fn run_inside<T>(&self, verify: Verify, inputs: &[TensorRef<'_>], py: &mut dyn PythonCalls, make: Make<T>) -> Result<T, RunError> {
        let mut workspace = self.take_workspace().map_err(|e| RunError::Failed(Failure::plain(e)))?;
        let outcome = if profile::is_on() {
            profile::watched(&self.about, |watch| self.run_in(&mut workspace, (verify, make), inputs, py, watch))
        } else {
            self.run_in(&mut workspace, (verify, make), inputs, py, &mut Unwatched)
        };
        workspace.clear();
        self.pool.put(workspace);
        outcome
    }

    fn take_workspace(&self) -> Result<Box<Workspace>, String> {
        self.pool.take().map_or_else(|| Workspace::new(&self.program, self.plan.workspace_bytes, self.blocks.as_ref()).map(Box::new), Ok)
    }

    fn run_in<W: Watch, T>(
        &self,
        workspace: &mut Workspace,
        (verify, make): (Verify, Make<T>),
        inputs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
        watch: &mut W,
    ) -> Result<T, RunError> {
        verify(&self.plan.inputs, &self.program, inputs, &mut workspace.inputs).map_err(RunError::Guard)?;
        workspace.bind_inputs(&self.program);
        for alignment in &self.alignments {
            if let Some(failure) = alignment.refuses(workspace.address(alignment.entry), &self.plan) {
                return Err(RunError::Failed(failure));
            }
        }
        workspace.hold(self.abi, &self.program).map_err(|e| RunError::Failed(e.into()))?;
        let session = Session::begin(self.abi, &self.plan, &self.code).map_err(RunError::Failed)?;
        if W::WAITS {
            // Work that is still pending from before must not count towards this graph.
            wait(session.as_ref()).map_err(RunError::Failed)?;
        }
        let mut committed = false;
        self.steps(workspace, session.as_ref(), inputs, py, &mut committed, watch)
            .and_then(|()| Ok(make(self, workspace, inputs)?))
            .map_err(|failure| if committed { RunError::AfterCommit(failure) } else { RunError::Failed(failure) })
    }

    fn steps<W: Watch>(
        &self,
        workspace: &mut Workspace,
        session: Option<&Session<'_>>,
        inputs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
        committed: &mut bool,
        watch: &mut W,
    ) -> Result<(), Failure> {
        let program = &self.program;
        // Nothing is recorded for gradients: if the graph has any, another graph computes them.
        let _no_grad = if self.records { Some(NoGrad::enter(self.abi)?) } else { None };
        // Launches and allocations do not dispatch through autograd; only extern calls need the keys disabled.
        let enter = || (!program.externs.is_empty()).then(|| BelowAutograd::enter(self.abi));
        let mut below = enter();
        let kernels = self.plan.kernels.len();
        let ended = || if W::WAITS { wait(session) } else { Ok(()) };
        for op in &program.ops {
            match *op {
                Op::Launch { kernel, row } => {
                    // SAFETY: the row holds an address for each of the kernel's arguments, bound from memory that the plan's bounds check
                    // and `verify` found large enough; the code stays loaded while `code` holds it. Memory that a device uses lives until
                    // its stream has passed the launch, since it is torch's.
                    watch.time(kernel, || unsafe {
                        match (&*self.code, session) {
                            (Code::Host(kernels), _) => kernels[kernel].call(workspace.row(row)),
                            (Code::Device(..), Some(session)) => session.launch(kernel, workspace.row(row)).and_then(|()| ended())?,
                            (Code::Device(..), None) => return Err(Failure::plain("no session on the device")),
                        }
                        Ok(())
                    })?;
                }
                Op::CheckRange { check } => {
                    let check = &program.checks[check];
                    // SAFETY: the row's one entry is the address of a window of these sizes and strides, bound from memory
                    // that was found large enough, as for a launch.
                    let offender = unsafe { check.offender((*workspace.row(check.row)).cast::<i64>()) };
                    if let Some(value) = offender {
                        let Check { message, low, high, .. } = check;
                        return Err(Failure::plain(format!("{message}: {value} is not in {low}..{high}")));
                    }
                }
                Op::Allocate { slot } => {
                    let layout = &program.slots[slot];
                    let tensor = self.abi.empty_strided_on(program.device, &layout.window.sizes, &layout.window.strides, layout.dtype)?;
                    workspace.fill(program, slot, tensor)?;
                }
                Op::Extern { step } if self.externs[step].is_foreign() => {
                    // A foreign op decides itself how it interacts with autograd and versions.
                    drop(below.take());
                    watch.time(kernels + step, || self.extern_step(step, workspace, inputs, py).and_then(|()| ended()))?;
                    below = enter();
                }
                Op::Extern { step } => {
                    watch.time(kernels + step, || self.extern_step(step, workspace, inputs, py).and_then(|()| ended()))?;
                }
                Op::Release { slot } => workspace.slots[slot] = None,
                Op::Commit => {
                    if !program.bumps.is_empty() {
                        drop(below.take());
                        effects::bump(&program.bumps, inputs)?;
                        below = enter();
                    }
                    *committed = true;
                }
            }
        }
        Ok(())
    }

    fn extern_step(
        &self,
        index: usize,
        workspace: &mut Workspace,
        inputs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
    ) -> Result<(), Failure> {
        let step = &self.program.externs[index];
        let call = &self.plan.externs[step.call];
        let failed = |e: PythonError| Failure {
            message: e.message,
            schema: Some(call.schema.clone()),
            location: Some(call.location.clone()),
            payload: e.payload,
            misaligned: false,
        };
        for source in step.operands.iter().chain(&step.outs) {
            workspace.prepare(self.abi, &self.program, *source)?;
        }
        let tensors = |sources: &[_]| sources.iter().map(|s| workspace.tensor(*s, inputs)).collect::<Result<Vec<_>, _>>();
        let (operands, outs) = (tensors(&step.operands)?, tensors(&step.outs)?);
        let results = self.externs[index].call(self.abi, call, &operands, &outs, py).map_err(failed)?;
        if let Some((number, sizes)) = resized(&outs, &call.result_layouts)? {
            let message = format!("its result {number} has sizes {sizes:?}, others were expected");
            workspace.forget(&step.outs);
            return Err(failed(PythonError { message, payload: None }));
        }
        if step.results.is_empty() {
            return Ok(());
        }
        if results.len() != step.results.len() {
            let text = format!("{} tensors came back, {} were expected", results.len(), step.results.len());
            return Err(failed(PythonError { message: text, payload: None }));
        }
        let mut made: Vec<(usize, OwnedTensor)> = Vec::with_capacity(results.len());
        for (slot, result) in step.results.iter().zip(results) {
            let Some(slot) = *slot else { continue };
            let result = result.ok_or_else(|| PythonError { message: "an expected result is undefined".to_owned(), payload: None });
            let result = result.map_err(failed)?;
            let tensor = externs::normalize(self.abi, call, (self.program.device, &self.program.slots[slot]), result, &operands, |p| {
                workspace.contains(p)
            })
            .map_err(|message| failed(PythonError { message, payload: None }))?;
            made.push((slot, tensor));
        }
        for (slot, tensor) in made {
            workspace.fill(&self.program, slot, tensor)?;
        }
        Ok(())
    }
}

/// Returns the separately measured parts of a plan.
fn timed(plan: &Plan, externs: &[Arc<Prepared>]) -> Vec<Timed> {
    let kernels = plan.kernels.iter().map(|kernel| Timed { name: kernel.name.clone(), ..Timed::default() });
    let externs = externs.iter().map(|prepared| &prepared.report).map(|report| Timed {
        name: report.schema.clone(),
        route: Some(report.route.to_string()),
        bytes: None,
        lines: if report.location.is_empty() { Vec::new() } else { vec![report.location.clone()] },
    });
    kernels.chain(externs).collect()
}

fn wait(session: Option<&Session<'_>>) -> Result<(), Failure> {
    session.map_or(Ok(()), Session::wait)
}

/// Returns an `out` that no longer has the layout with which it was passed: torch resizes, and so moves, one with the wrong shape.
fn resized<'a>(outs: &[TensorRef<'a>], layouts: &[Option<Layout>]) -> Result<Option<(usize, &'a [i64])>, TorchError> {
    for (i, (out, layout)) in outs.iter().zip(layouts).enumerate() {
        let (sizes, strides) = (out.sizes()?, out.strides()?);
        if layout.as_ref().is_some_and(|layout| sizes != layout.window.sizes || strides != layout.window.strides) {
            return Ok(Some((i, sizes)));
        }
    }
    Ok(None)
}
