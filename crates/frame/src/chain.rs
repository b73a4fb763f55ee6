//! Frames that stand within one another between two graphs, from the one of the compiled callable down to the one whose instruction
//! broke the graph.
//!
//! They are real frames. Each but the last is making a call, for real, whose frame is put where it is to stand as soon as CPython has
//! made it. So nothing has to be known of how a result is taken: CPython does that. When a graph ends further out, the frames within
//! return nothing in particular, which is thrown away with the stack on which it lands.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use dynamlir_cpython_abi::Frame;
use dynamlir_interpreter::{Activation, Instruction, Standing};
use pyo3::prelude::*;

use crate::call::Callable;

/// How many frames are compiled together at most: each graph on the way looks at all of them, so a recursion that breaks at each level
/// would otherwise take time that grows with the square of its depth.
const MOST_FRAMES: usize = 32;

thread_local! {
    /// Frames that are about to be made.
    static PENDING: RefCell<Option<Pending>> = const { RefCell::new(None) };
}

/// Frames that are about to be made, and where they are to stand.
pub(crate) struct Pending {
    /// Whose they are.
    pub callable: Arc<Callable>,
    /// The outermost first.
    pub frames: Vec<Standing>,
    /// The frame whose call makes the first of them.
    pub outer: Option<Rc<Link>>,
}

impl Pending {
    /// Waits for the first of the frames.
    pub(crate) fn wait(self) {
        let former = PENDING.replace(Some(self));
        drop(former);
    }

    /// Gives up what the call of this frame was to make, or a call from outside. Whether it was still waited for.
    pub(crate) fn give_up(outer: Option<&Link>) -> bool {
        let is_its = |pending: &Self| pending.outer.as_deref().map(std::ptr::from_ref) == outer.map(std::ptr::from_ref);
        let is_waited_for = PENDING.with_borrow(|pending| pending.as_ref().is_some_and(is_its));
        if is_waited_for {
            drop(PENDING.take());
        }
        is_waited_for
    }

    /// What a frame that begins was waited for with; None where another one was, or none.
    pub(crate) fn take(frame: &Frame<'_>) -> Option<Self> {
        let is_first = |pending: &Self| frame.code().is_some_and(|code| pending.frames.first().is_some_and(|first| first.is_of(&code)));
        let is_waited_for = PENDING.with_borrow(|pending| pending.as_ref().is_some_and(is_first));
        if is_waited_for && frame.next_unit() == 0 { PENDING.take() } else { None }
    }

    /// Whether any frame is waited for.
    pub(crate) fn is_any() -> bool {
        PENDING.with_borrow(Option::is_some)
    }
}

/// What is to become of a frame, once those within it have returned.
pub(crate) enum Exit {
    /// It returns this.
    Give(Py<PyAny>),
    /// It is put there, and others within it.
    Stand(Vec<Standing>),
}

/// A frame of a chain, as those within it see it.
pub(crate) struct Link {
    outer: Option<Rc<Link>>,
    /// How many frames are around it.
    pub level: usize,
    /// The function of the outermost frame.
    function: Option<Py<PyAny>>,
    /// How it stands before the call that it is making.
    standing: RefCell<Option<Rc<Standing>>>,
    /// Iterators that were made for the stack on which it was put.
    made: RefCell<Vec<Py<PyAny>>>,
    /// What becomes of a frame further out, or of this one.
    exit: RefCell<Option<(usize, Exit)>>,
    /// How many exceptions it is handling: what is in handlers is not compiled.
    pub handling: Cell<usize>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // What is dropped unattached dies later.
        if self.function.is_some() || !self.made.get_mut().is_empty() {
            Python::attach(|_| drop((self.function.take(), self.made.take())));
        }
    }
}

impl Link {
    /// A frame in another one; the outermost has a function.
    pub(crate) fn new(outer: Option<Rc<Self>>, function: Option<Py<PyAny>>) -> Rc<Self> {
        let level = outer.as_ref().map_or(0, |outer| outer.level + 1);
        let (standing, made, exit) = (RefCell::default(), RefCell::default(), RefCell::default());
        Rc::new(Self { outer, level, function, standing, made, exit, handling: Cell::new(0) })
    }

    /// The frame is put there.
    pub(crate) fn put(&self, py: Python<'_>, standing: &Standing) {
        let former = self.made.take();
        if former.is_empty() && standing.made.is_empty() {
            return;
        }
        let is_made =
            |(place, object): &(usize, &Py<PyAny>)| standing.made.contains(place) || former.iter().any(|former| former.is(*object));
        let stack = standing.stack.iter().enumerate().filter_map(|(place, object)| Some((place, object.as_ref()?)));
        let made = stack.filter(is_made).map(|(_, object)| object.clone_ref(py)).collect();
        self.made.replace(made);
        Python::attach(|_| drop(former));
    }

    /// How the frame stands before an instruction.
    fn standing(&self, frame: &Activation<'_>, instruction: &Instruction) -> Rc<Standing> {
        let made = self.made.borrow();
        let mut standing = Standing::of(frame, instruction);
        if !made.is_empty() {
            let is_made = |object: &Py<PyAny>| made.iter().any(|made| made.is(object));
            let places = standing.stack.iter().enumerate();
            standing.made = places.filter(|(_, object)| object.as_ref().is_some_and(is_made)).map(|(place, _)| place).collect();
        }
        Rc::new(standing)
    }

    /// Whether what this frame calls is not to be compiled together with it.
    pub(crate) fn is_full(&self) -> bool {
        self.level + 1 >= MOST_FRAMES
    }

    fn around(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |link| link.outer.as_deref())
    }

    /// Whether the frame, or one around it, is handling an exception.
    pub(crate) fn is_handling(&self) -> bool {
        self.around().any(|link| link.handling.get() > 0)
    }

    /// The function of the outermost frame.
    pub(crate) fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.around().find_map(|link| link.function.as_ref().map(|function| function.bind(py).clone()))
    }

    /// The frame begins a call whose frame is not to begin anew.
    pub(crate) fn calls(
        self: &Rc<Self>,
        callable: &Arc<Callable>,
        frame: &Activation<'_>,
        instruction: &Instruction,
        frames: Vec<Standing>,
    ) {
        let former = self.standing.replace(Some(self.standing(frame, instruction)));
        drop(former);
        Pending { callable: callable.clone(), frames, outer: Some(self.clone()) }.wait();
    }

    /// The call has ended. Whether its frame was made.
    pub(crate) fn has_called(&self) -> bool {
        let Some(standing) = self.standing.take() else { return true };
        drop(standing);
        !Pending::give_up(Some(self))
    }

    /// How the frames stand, the outermost first: this one before an instruction, the others before the calls that they make. None
    /// where one of them is not making such a call any more.
    pub(crate) fn chain(&self, frame: &Activation<'_>, instruction: &Instruction) -> Option<Vec<Rc<Standing>>> {
        let mut frames = self.around().skip(1).map(|link| link.standing.borrow().clone()).collect::<Option<Vec<_>>>()?;
        frames.reverse();
        frames.push(self.standing(frame, instruction));
        Some(frames)
    }

    /// Says what becomes of the frame at a level further out, to the one around this.
    pub(crate) fn tell(&self, level: usize, exit: Exit) {
        if let Some(outer) = &self.outer {
            let former = outer.exit.replace(Some((level, exit)));
            drop(former);
        }
    }

    /// What those within have said.
    pub(crate) fn take_exit(&self) -> Option<(usize, Exit)> {
        self.exit.take()
    }
}
