//! The recorder: everything that a capture asks of Python, one method per request.
//!
//! It is `dynamlir.capture.session.Session`, which owns the fakes and the recording of `ATen` operations. Requests run outside the capture:
//! the Python code behind them is not interpreted. No other file names a method of the session; a test checks that it has all of these.
//!
//! Unless stated otherwise, a request returns the exception raised by the session or by torch.

use dynamlir_graph::Line;
use dynamlir_symint::Sizes;
use pyo3::{
    call::PyCallArgs,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

/// The session of a capture.
pub(crate) struct Recorder<'a, 'py>(pub(crate) &'a Bound<'py, PyAny>);

type Object<'py> = Bound<'py, PyAny>;

/// The way in which an operation runs on fakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAs {
    /// As a function or a method of torch.
    Operation,
    /// As a function that sets state of the thread, such as grad mode.
    Setter,
    /// As one node of the graph, which nothing looks into.
    Whole,
}

impl<'py> Recorder<'_, 'py> {
    fn ask(&self, method: &str, args: impl PyCallArgs<'py>) -> PyResult<Object<'py>> {
        dynamlir_interpreter::suspended(|| self.0.call_method1(method, args))
    }

    fn holds(&self, method: &str, args: impl PyCallArgs<'py>) -> PyResult<bool> {
        self.ask(method, args)?.is_truthy()
    }

    /// Returns the fake of a tensor found at a place, with these sizes and strides if some of them are symbols.
    pub(crate) fn input(&self, real: &Object<'py>, place: &str, sized: Option<Bound<'py, PyTuple>>) -> PyResult<Object<'py>> {
        self.ask("input", (real, place, sized))
    }

    /// Makes a float an input of the graph. Returns the tensor that holds it at a call, and the number that the program sees.
    pub(crate) fn number(&self, value: &Object<'py>, place: &str) -> PyResult<(Object<'py>, Object<'py>)> {
        self.ask("number", (value, place))?.extract()
    }

    /// Makes an int an input of the graph: a tensor as long as the int. Returns that tensor and its fake.
    pub(crate) fn length(&self, value: i64, place: &str, sized: Bound<'py, PyTuple>) -> PyResult<(Object<'py>, Object<'py>)> {
        self.ask("length", (value, place, sized))?.extract()
    }

    /// Allows unbacked sizes (`sizes`), unbacked numbers read from tensors (`numbers`), and graphs that are not cut at them (`uncut`).
    pub(crate) fn take_unbacked(&self, known: &Py<Sizes>, sizes: bool, numbers: bool, uncut: bool) -> PyResult<()> {
        self.0.call_method1("take_unbacked", (known, sizes, numbers, uncut)).map(drop)
    }

    /// Records that a node of the graph names an unbacked symbol.
    pub(crate) fn note_spelled(&self, symbol: u32) -> PyResult<()> {
        self.ask("note_spelled", (symbol,)).map(drop)
    }

    /// Returns true if one of a tensor's methods may read a number from it.
    pub(crate) fn may_read(&self, fake: &Object<'py>, method: &str) -> PyResult<bool> {
        self.holds("may_read", (fake, method))
    }

    /// Returns the sizes of a tensor of ints that may become a list of unbacked ints; `None` if Python has to read it.
    pub(crate) fn may_list(&self, fake: &Object<'py>) -> PyResult<Option<Vec<usize>>> {
        self.ask("may_list", (fake,))?.extract()
    }

    /// Returns the contents of a tensor created from Python values; `None` for other tensors.
    pub(crate) fn known_contents(&self, fake: &Object<'py>) -> PyResult<Option<Object<'py>>> {
        Ok(Some(self.ask("known_contents", (fake,))?).filter(|known| !known.is_none()))
    }

    /// Records that Python needs the value of a number.
    pub(crate) fn blame(&self, number: &Object<'py>) -> PyResult<()> {
        self.ask("blame", (number,)).map(drop)
    }

    /// Returns the places of the numbers whose values Python needs.
    pub(crate) fn blamed(&self) -> PyResult<Vec<String>> {
        self.0.call_method0("blamed")?.extract()
    }

    /// Returns a span of operations in a form that can be repeated; `None` if they cannot.
    pub(crate) fn span(
        &self,
        ops: (usize, usize),
        inputs: &[Object<'py>],
        given: &[Object<'py>],
        wanted: Vec<Object<'py>>,
    ) -> PyResult<Option<Object<'py>>> {
        Ok(Some(self.ask("span", (ops, inputs, given, wanted))?).filter(|span| !span.is_none()))
    }

    /// Repeats a span on other tensors: `added` are new inputs with their places. Returns the fakes of these and of the span's results;
    /// `None` if the operations differ on these tensors.
    pub(crate) fn repeat(
        &self,
        span: &Object<'py>,
        added: Vec<(&Object<'py>, String)>,
        given: &[Object<'py>],
    ) -> PyResult<Option<(Vec<Object<'py>>, Vec<Object<'py>>)>> {
        self.ask("repeat", (span, added, given))?.extract()
    }

    /// Records that a module's call was repeated instead of interpreted.
    pub(crate) fn note_repeated(&self, module: &Object<'py>, location: Vec<Line>) -> PyResult<()> {
        self.ask("note_repeated", (module, location)).map(drop)
    }

    /// Returns a savepoint of the recording.
    pub(crate) fn savepoint(&self) -> PyResult<Object<'py>> {
        self.ask("savepoint", ())
    }

    /// Rolls the recording back to a savepoint. Returns false if that is impossible.
    pub(crate) fn roll_back(&self, to: Py<PyAny>) -> PyResult<bool> {
        self.holds("roll_back", (to,))
    }

    /// Runs an operation on fakes and records it. `location` is a list of lines, or `None`.
    pub(crate) fn run(
        &self,
        run: RunAs,
        callable: &Object<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        location: Option<&Object<'py>>,
    ) -> PyResult<Object<'py>> {
        let method = match run {
            RunAs::Operation => "run",
            RunAs::Setter => "run_setter",
            RunAs::Whole => "run_whole",
        };
        self.ask(method, (callable, args, kwargs, location))
    }

    /// Returns true if the thread's state now selects other kernels than at the beginning.
    pub(crate) fn chooses_otherwise(&self) -> PyResult<bool> {
        self.holds("chooses_otherwise", ())
    }

    /// Returns what a function that queries a setting answered before the frame changed the setting: a tuple of one answer, or empty.
    pub(crate) fn answered_before(&self, function: &Object<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        Ok(self.ask("answered_before", (function, args))?.cast_into()?)
    }

    /// Reads an attribute of a fake.
    pub(crate) fn attribute(&self, fake: &Object<'py>, name: &Object<'py>, location: &Bound<'py, PyList>) -> PyResult<Object<'py>> {
        self.ask("attribute", (fake, name, location))
    }

    /// Checks that torch would accept a gradient of a tensor.
    pub(crate) fn check_grad(&self, fake: &Object<'py>, value: &Object<'py>) -> PyResult<()> {
        self.ask("check_grad", (fake, value)).map(drop)
    }

    /// Checks that torch would accept the data of a tensor.
    pub(crate) fn check_data(&self, fake: &Object<'py>, value: &Object<'py>) -> PyResult<()> {
        self.ask("check_data", (fake, value)).map(drop)
    }

    /// Returns true if a tensor can require a gradient: its element type allows that, and it is not of inference mode.
    pub(crate) fn may_require_grad(&self, fake: &Object<'py>) -> PyResult<bool> {
        self.holds("may_require_grad", (fake,))
    }

    /// Records what was set of a tensor: `"grad"`, `"data"` or `"requires_grad"`.
    pub(crate) fn note_set(&self, fake: &Object<'py>, what: &str, location: &Bound<'py, PyList>) -> PyResult<()> {
        self.ask("note_set", (fake, what, location)).map(drop)
    }

    /// Returns the leaves that gradients of these outputs reach, of these inputs if they are given.
    pub(crate) fn leaves(&self, outputs: &Object<'py>, inputs: Option<Bound<'py, PyList>>) -> PyResult<Object<'py>> {
        self.ask("leaves", (outputs, inputs))
    }

    /// Returns the graph's inputs that gradients of these tensors reach.
    pub(crate) fn reached_inputs(&self, outputs: Bound<'py, PyList>) -> PyResult<Object<'py>> {
        self.ask("reached_inputs", (outputs,))
    }

    /// Returns the inputs that these arguments of `torch.autograd.grad` ask for, and those that their histories reach.
    pub(crate) fn asked(&self, args: &Bound<'py, PyTuple>, kwargs: &Bound<'py, PyDict>) -> PyResult<(Bound<'py, PyList>, Object<'py>)> {
        self.ask("asked", (args, kwargs))?.extract()
    }

    /// Returns true if the history of a tensor was used up by a backward within the frame.
    pub(crate) fn is_used_up(&self, fake: &Object<'py>) -> PyResult<bool> {
        self.holds("is_used_up", (fake,))
    }

    /// Returns true if a transform of `torch.func` differentiates with respect to a tensor.
    pub(crate) fn is_differentiated_by(&self, fake: &Object<'py>) -> PyResult<bool> {
        self.holds("is_differentiated_by", (fake,))
    }

    /// Begins or ends one level of autograd.
    pub(crate) fn level(&self, begins: bool) -> PyResult<()> {
        self.ask("level", (begins,)).map(drop)
    }

    /// Begins the call of a `torch.autograd.Function`.
    pub(crate) fn apply_function(&self, args: &Bound<'py, PyTuple>, location: Vec<Line>) -> PyResult<Object<'py>> {
        self.ask("apply_function", (args, location))
    }

    /// Begins a part that backward recomputes. Returns the argument of [`Self::leave_checkpoint`].
    pub(crate) fn enter_checkpoint(&self) -> PyResult<Object<'py>> {
        self.ask("enter_checkpoint", ())
    }

    /// Ends a part that backward recomputes.
    pub(crate) fn leave_checkpoint(&self, before: Object<'py>) -> PyResult<()> {
        self.ask("leave_checkpoint", (before,)).map(drop)
    }

    /// Returns the facts about a result on fakes by which torch compares the functions of a region.
    pub(crate) fn facts(&self, result: Object<'py>, operands: Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
        self.ask("facts", (result, operands))
    }

    /// Returns true if the branches of `torch.cond` agree as torch requires.
    pub(crate) fn branches_agree(
        &self,
        predicate: &Object<'py>,
        operands: Bound<'py, PyTuple>,
        first: Object<'py>,
        second: Option<Object<'py>>,
    ) -> PyResult<bool> {
        self.holds("branches_agree", (predicate, operands, first, second))
    }

    /// Returns true if the functions of `torch.while_loop` agree as torch requires.
    pub(crate) fn loop_agrees(&self, operands: Bound<'py, PyTuple>, condition: Object<'py>, body: Option<Object<'py>>) -> PyResult<bool> {
        self.holds("loop_agrees", (operands, condition, body))
    }

    /// Returns a context that represents `torch.inference_mode(enabled)`.
    pub(crate) fn inference_mode(&self, enabled: bool) -> PyResult<Object<'py>> {
        self.ask("inference_mode", (enabled,))
    }

    /// Returns the reason and the message by which an exception ends the capture; `None` if it does not.
    pub(crate) fn failure(&self, error: &Bound<'py, PyAny>) -> PyResult<Option<(String, String)>> {
        let failure = self.ask("failure", (error,))?;
        if failure.is_none() {
            return Ok(None);
        }
        let text = |name: &str| failure.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
        Ok(Some((text("reason"), text("message"))))
    }

    /// Returns the context in which code runs outside the capture: on real tensors.
    pub(crate) fn outside(&self) -> PyResult<Object<'py>> {
        self.0.call_method0("outside")
    }

    /// Describes a tensor that the frame has created, by all that operations on it depend on; `None` if it cannot be described.
    pub(crate) fn described(&self, fake: &Object<'py>, others: &[Object<'py>]) -> PyResult<Option<String>> {
        self.ask("described", (fake, others))?.extract()
    }

    /// Returns the location at which the frame has turned grad mode off, if it leaves it off.
    pub(crate) fn grad_left_off(&self) -> PyResult<Option<Vec<Line>>> {
        self.0.call_method0("grad_left_off")?.extract()
    }

    /// Returns the state of the thread that the frame leaves set, as text and with its location. `grad` is true if grad mode may be off.
    pub(crate) fn left_set(&self, grad: bool) -> PyResult<Option<(String, Vec<Line>)>> {
        self.0.call_method1("left_set", (grad,))?.extract()
    }

    /// Records the facts about the symbols: the input and the dimension that binds each of them, and the places of the sizes.
    pub(crate) fn note_sizes(&self, sizes: &Py<Sizes>, bound: Vec<Option<(usize, usize)>>, places: Vec<String>) -> PyResult<()> {
        self.0.call_method1("note_sizes", (sizes, bound, places)).map(drop)
    }

    /// Ends the recording with these outputs. `named` are the inputs that the graph must keep. Returns the positions of the inputs it keeps.
    pub(crate) fn finish(&self, outputs: Vec<Object<'py>>, named: Vec<usize>) -> PyResult<Vec<usize>> {
        self.0.call_method1("finish", (outputs, named))?.extract()
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        self.0.getattr(name)?.is_truthy()
    }

    /// Returns true if a backward within the frame has freed a history.
    pub(crate) fn frees(&self) -> PyResult<bool> {
        self.flag("frees")
    }

    /// Returns true if numbers read from tensors may become numbers of the graph.
    pub(crate) fn reads_numbers(&self) -> PyResult<bool> {
        self.flag("reads_numbers")
    }

    /// Returns true if calls of equal modules may be repeated instead of interpreted.
    pub(crate) fn repeats(&self) -> PyResult<bool> {
        self.flag("repeats")
    }

    /// Returns true if the recording needs the histories that repeated calls lack.
    pub(crate) fn wants_histories(&self) -> PyResult<bool> {
        self.flag("wants_histories")
    }

    /// Returns true if the captured call runs in inference mode.
    pub(crate) fn inference(&self) -> PyResult<bool> {
        self.flag("inference")
    }

    /// Returns the number of instructions without an operation after which a loop continues in Python.
    pub(crate) fn patience(&self) -> PyResult<usize> {
        self.0.getattr("patience")?.extract()
    }

    /// Returns the context that represents autocast's cache.
    pub(crate) fn autocast_cache(&self) -> PyResult<Object<'py>> {
        self.0.getattr("autocast_cache")
    }

    /// Returns the list of recorded operations.
    pub(crate) fn ops(&self) -> PyResult<Bound<'py, PyList>> {
        Ok(self.0.getattr("recording")?.getattr("ops")?.cast_into()?)
    }

    /// Returns true if the graph depends on the storage offsets of its inputs.
    pub(crate) fn is_offset_sensitive(&self) -> PyResult<bool> {
        self.0.getattr("recording")?.getattr("offset_sensitive")?.is_truthy()
    }

    /// Returns the recorder of operations, a dispatch mode.
    pub(crate) fn operations(&self) -> PyResult<Object<'py>> {
        self.0.getattr("recorder")
    }

    /// Records that a fake represents a module's buffer, whose contents may be read.
    pub(crate) fn note_buffer(&self, fake: &Object<'py>, real: &Object<'py>) -> PyResult<()> {
        let recorder = self.operations()?;
        dynamlir_interpreter::suspended(|| recorder.getattr("buffers")?.call_method1("note", (&recorder, fake, real))).map(drop)
    }

    /// Returns the fakes of the buffers that the program has read, once for each read.
    pub(crate) fn buffers_read(&self) -> PyResult<Object<'py>> {
        dynamlir_interpreter::suspended(|| self.operations()?.getattr("buffers")?.getattr("read"))
    }
}
