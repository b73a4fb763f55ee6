//! What is claimed of C functions, and so why they may be called while capturing.
//!
//! Each claim is of CPython's, torch's or numpy's source, for the versions that are supported; `test_effects.py` holds it
//! against what the function does to arguments that watch.

/// What a C function looks at besides the arguments themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// What the arguments hold, however deep.
    Arguments,
    /// Settings of the thread that the guard of torch's state compares.
    GuardedState,
    /// Other settings of the process or thread: the guard is the question itself.
    OtherState,
}

/// What it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Nothing that Python can see.
    Nothing,
    /// Iterators among its arguments, which it steps; the result may do so later. The policy sees to whose they are.
    Iterators,
    /// Its first argument, which the frame must have made.
    First,
    /// Settings of the thread, which the frame must set back.
    State,
}

/// Which Python it may call back. That comes through the frame hook and is interpreted like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Special methods of the arguments, and of what they hold.
    Specials(&'static [&'static str]),
    /// Those, and functions among its arguments.
    Functions(&'static [&'static str]),
}

/// What refers to the arguments, or to what they hold, when it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// What it returns.
    Result,
    /// Its first argument, and perhaps what it returns.
    First,
}

/// All of that for one function, or for a group that is alike.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// What it looks at.
    pub reads: Reads,
    /// What it changes.
    pub writes: Writes,
    /// Which Python it may call.
    pub calls: Calls,
    /// What keeps its arguments.
    pub keeps: Keeps,
}

impl Claim {
    /// The special methods that it may call.
    pub fn specials(&self) -> &'static [&'static str] {
        match self.calls {
            Calls::Specials(names) | Calls::Functions(names) => names,
        }
    }
}

const QUIET: Calls = Calls::Specials(&[]);

/// Looks at objects that are fixed once made, or only takes them.
pub const TAKES: Claim = Claim { reads: Reads::Arguments, writes: Writes::Nothing, calls: QUIET, keeps: Keeps::Result };

/// Asks whether what it is given can be called.
pub const ASKS_FOR_CALL: Claim = Claim { calls: Calls::Specials(&["__call__"]), keeps: Keeps::Nothing, ..TAKES };

/// Computes from numbers, and from what turns into one.
pub const NUMBERS: Claim = Claim {
    calls: Calls::Specials(&[
        "__abs__",
        "__bool__",
        "__ceil__",
        "__complex__",
        "__divmod__",
        "__float__",
        "__floor__",
        "__index__",
        "__int__",
        "__len__",
        "__length_hint__",
        "__pow__",
        "__rdivmod__",
        "__round__",
        "__rpow__",
        "__trunc__",
    ]),
    ..TAKES
};

/// Steps what iterates, and hashes and compares what comes.
pub const WALKS: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Functions(&[
        "__bool__",
        "__eq__",
        "__getitem__",
        "__ge__",
        "__gt__",
        "__hash__",
        "__iter__",
        "__le__",
        "__len__",
        "__length_hint__",
        "__lt__",
        "__next__",
        "__reversed__",
        "keys",
    ]),
    ..TAKES
};

/// Numbers from what iterates.
pub const FOLDS: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Specials(&[
        "__add__",
        "__float__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__mul__",
        "__next__",
        "__radd__",
        "__rmul__",
    ]),
    ..TAKES
};

/// Text and bytes of objects.
pub const TEXTS: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Specials(&[
        "__bytes__",
        "__format__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__next__",
        "__repr__",
        "__str__",
    ]),
    ..TAKES
};

/// Makes an iterator that steps others and calls functions when it is stepped.
pub const LAZY: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Functions(&[
        "__add__",
        "__bool__",
        "__copy__",
        "__eq__",
        "__getitem__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__next__",
        "__radd__",
        "__reversed__",
    ]),
    ..TAKES
};

/// Answers from settings that are guarded together.
pub const GUARDED: Claim = Claim { reads: Reads::GuardedState, keeps: Keeps::Nothing, ..TAKES };

/// Answers from settings that are asked for again.
pub const OTHER: Claim = Claim { reads: Reads::OtherState, keeps: Keeps::Nothing, ..TAKES };

/// The same, by a flag that need not be a bool.
pub const OTHER_BY_FLAG: Claim = Claim { calls: Calls::Specials(&["__bool__"]), ..OTHER };

/// Sets state of the thread.
pub const SETS: Claim = Claim { writes: Writes::State, keeps: Keeps::Nothing, ..TAKES };

/// Of the classes in the table: slots and methods that change nothing. What they call is what elements answer.
pub const METHODS: Claim = Claim { writes: Writes::Iterators, calls: Calls::Functions(&["any special method of the arguments"]), ..TAKES };

/// Of the classes in the table: methods that change the object itself.
pub const MUTATORS: Claim = Claim { writes: Writes::First, keeps: Keeps::First, ..METHODS };
