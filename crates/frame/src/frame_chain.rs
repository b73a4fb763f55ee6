//! Nested frames between two graphs, from the frame of the compiled callable down to the one whose instruction broke the graph.
//!
//! They are real frames. Each except the last really makes a call, and the frame of that call is moved to its point as soon as CPython has
//! created it. So this code need not know how a result is consumed: CPython does that. When a graph ends in a frame further out, the inner
//! frames return a dummy value, which is discarded together with the stack that receives it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use dynamlir_cpython_abi::Frame;
use dynamlir_interpreter::{Activation, FrameState, Instruction};
use pyo3::prelude::*;

use crate::callable::Callable;

/// The maximum number of frames that are compiled together. Each graph on the way inspects all of them, so a recursion that breaks at each
/// level would otherwise take time quadratic in its depth.
const MOST_FRAMES: usize = 32;

thread_local! {
    /// The frames about to be created.
    static PENDING: RefCell<Option<Pending>> = const { RefCell::new(None) };
}

/// Frames about to be created, with the points to which they are to be moved.
pub(crate) struct Pending {
    /// The callable to which they belong.
    pub callable: Arc<Callable>,
    /// The frames, outermost first.
    pub frames: Vec<FrameState>,
    /// The frame whose call creates the first of them.
    pub outer: Option<Rc<Link>>,
}

impl Pending {
    /// Starts waiting for the first of the frames.
    pub(crate) fn wait(self) {
        let former = PENDING.replace(Some(self));
        drop(former);
    }

    /// Cancels the frames expected from a call by this frame, or from an outside call. Returns true if they were still awaited.
    pub(crate) fn give_up(outer: Option<&Link>) -> bool {
        let is_its = |pending: &Self| pending.outer.as_deref().map(std::ptr::from_ref) == outer.map(std::ptr::from_ref);
        let is_waited_for = PENDING.with_borrow(|pending| pending.as_ref().is_some_and(is_its));
        if is_waited_for {
            drop(PENDING.take());
        }
        is_waited_for
    }

    /// Returns the pending state for a frame that begins, if this frame is the awaited one.
    pub(crate) fn take(frame: &Frame<'_>) -> Option<Self> {
        let is_first = |pending: &Self| frame.code().is_some_and(|code| pending.frames.first().is_some_and(|first| first.is_of(&code)));
        let is_waited_for = PENDING.with_borrow(|pending| pending.as_ref().is_some_and(is_first));
        if is_waited_for && frame.next_unit() == 0 { PENDING.take() } else { None }
    }

    /// Returns true if any frame is awaited.
    pub(crate) fn is_any() -> bool {
        PENDING.with_borrow(Option::is_some)
    }
}

/// The continuation of a frame once the frames within it have returned.
pub(crate) enum Exit {
    /// It returns this.
    Give(Py<PyAny>),
    /// It is moved to this point, with others within it.
    Stand(Vec<FrameState>),
}

/// A frame of a chain, as the frames within it see it.
pub(crate) struct Link {
    outer: Option<Rc<Link>>,
    /// The number of frames around it.
    pub level: usize,
    /// The function of the outermost frame.
    function: Option<Py<PyAny>>,
    /// Its state before the call that it is making.
    frame_state: RefCell<Option<Rc<FrameState>>>,
    /// The iterators that were created for the stack with which it was set up.
    made: RefCell<Vec<Py<PyAny>>>,
    /// The continuation of a frame further out, or of this one.
    exit: RefCell<Option<(usize, Exit)>>,
    /// The number of exceptions that it is handling: code in handlers is not compiled.
    pub handling: Cell<usize>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // References dropped without an attached interpreter would die later.
        if self.function.is_some() || !self.made.get_mut().is_empty() {
            Python::attach(|_| drop((self.function.take(), self.made.take())));
        }
    }
}

impl Link {
    /// Creates the link of a frame within another one; the outermost has a function.
    pub(crate) fn new(outer: Option<Rc<Self>>, function: Option<Py<PyAny>>) -> Rc<Self> {
        let level = outer.as_ref().map_or(0, |outer| outer.level + 1);
        let (frame_state, made, exit) = (RefCell::default(), RefCell::default(), RefCell::default());
        Rc::new(Self { outer, level, function, frame_state, made, exit, handling: Cell::new(0) })
    }

    /// Records that the frame was moved to this state.
    pub(crate) fn put(&self, py: Python<'_>, frame_state: &FrameState) {
        let former = self.made.take();
        if former.is_empty() && frame_state.made.is_empty() {
            return;
        }
        let is_made =
            |(place, object): &(usize, &Py<PyAny>)| frame_state.made.contains(place) || former.iter().any(|former| former.is(*object));
        let stack = frame_state.stack.iter().enumerate().filter_map(|(place, object)| Some((place, object.as_ref()?)));
        let made = stack.filter(is_made).map(|(_, object)| object.clone_ref(py)).collect();
        self.made.replace(made);
        Python::attach(|_| drop(former));
    }

    /// Returns the state of the frame before an instruction.
    fn frame_state(&self, frame: &Activation<'_>, instruction: &Instruction) -> Rc<FrameState> {
        let made = self.made.borrow();
        let mut frame_state = FrameState::of(frame, instruction);
        if !made.is_empty() {
            let is_made = |object: &Py<PyAny>| made.iter().any(|made| made.is(object));
            let places = frame_state.stack.iter().enumerate();
            frame_state.made = places.filter(|(_, object)| object.as_ref().is_some_and(is_made)).map(|(place, _)| place).collect();
        }
        Rc::new(frame_state)
    }

    /// Returns true if functions called by this frame must not be compiled together with it.
    pub(crate) fn is_full(&self) -> bool {
        self.level + 1 >= MOST_FRAMES
    }

    fn around(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |link| link.outer.as_deref())
    }

    /// Returns true if the frame, or one around it, is handling an exception.
    pub(crate) fn is_handling(&self) -> bool {
        self.around().any(|link| link.handling.get() > 0)
    }

    /// Returns the function of the outermost frame.
    pub(crate) fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.around().find_map(|link| link.function.as_ref().map(|function| function.bind(py).clone()))
    }

    /// Records that the frame begins a call whose frame must not start at its beginning.
    pub(crate) fn calls(
        self: &Rc<Self>,
        callable: &Arc<Callable>,
        frame: &Activation<'_>,
        instruction: &Instruction,
        frames: Vec<FrameState>,
    ) {
        let former = self.frame_state.replace(Some(self.frame_state(frame, instruction)));
        drop(former);
        Pending { callable: callable.clone(), frames, outer: Some(self.clone()) }.wait();
    }

    /// Records that the call has ended. Returns true if its frame was created.
    pub(crate) fn has_called(&self) -> bool {
        let Some(frame_state) = self.frame_state.take() else { return true };
        drop(frame_state);
        !Pending::give_up(Some(self))
    }

    /// Returns the states of the frames, outermost first: this one before an instruction, the others before the calls that they make.
    /// Returns None if one of them is no longer making such a call.
    pub(crate) fn chain(&self, frame: &Activation<'_>, instruction: &Instruction) -> Option<Vec<Rc<FrameState>>> {
        let mut frames = self.around().skip(1).map(|link| link.frame_state.borrow().clone()).collect::<Option<Vec<_>>>()?;
        frames.reverse();
        frames.push(self.frame_state(frame, instruction));
        Some(frames)
    }

    /// Passes the continuation of the frame at an outer level to the next frame out.
    pub(crate) fn tell(&self, level: usize, exit: Exit) {
        if let Some(outer) = &self.outer {
            let former = outer.exit.replace(Some((level, exit)));
            drop(former);
        }
    }

    /// Takes the continuation passed by the inner frames.
    pub(crate) fn take_exit(&self) -> Option<(usize, Exit)> {
        self.exit.take()
    }
}
