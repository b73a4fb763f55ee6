//! Torch's queries about sizes, composed of comparisons before their answers are needed.

use std::fmt;

use dynamlir_shapes::{Predicate, Scope};

use crate::Sizes;

/// A question that is answered only when necessary, with as few guards as possible.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// True if a comparison holds.
    Is(Predicate),
    /// True if both parts are true.
    Both(Box<[Self; 2]>),
    /// True if one of the parts is true.
    Either(Box<[Self; 2]>),
}

impl Question {
    /// Returns the negation.
    pub fn negated(&self) -> Self {
        let each = |parts: &[Self; 2]| Box::new([parts[0].negated(), parts[1].negated()]);
        match self {
            Self::Is(predicate) => Self::Is(predicate.negated()),
            Self::Both(parts) => Self::Either(each(parts)),
            Self::Either(parts) => Self::Both(each(parts)),
        }
    }

    /// Returns the answer, if it is the same for all sizes.
    pub fn known(&self, scope: &Scope) -> Option<bool> {
        self.answered(&|predicate| scope.decide(predicate))
    }

    /// Returns the answer for the sizes of this call.
    fn now(&self, scope: &Scope) -> Option<bool> {
        self.answered(&|predicate| holds_now(predicate, scope))
    }

    fn answered(&self, answer: &dyn Fn(&Predicate) -> Option<bool>) -> Option<bool> {
        let either = |parts: &[Self; 2], wanted: bool| {
            let [first, second] = parts.each_ref().map(|part| part.answered(answer));
            if first == Some(wanted) || second == Some(wanted) { Some(wanted) } else { first.and(second) }
        };
        match self {
            Self::Is(predicate) => answer(predicate),
            Self::Both(parts) => either(parts, false),
            Self::Either(parts) => either(parts, true),
        }
    }

    /// Returns the answer, and guards it. If one part suffices for it, the other is not guarded.
    pub fn decide(&self, sizes: &Sizes) -> bool {
        if let Some(answer) = sizes.with(|known| self.known(&known.scope)) {
            return answer;
        }
        let (parts, enough) = match self {
            Self::Is(predicate) => return sizes.decide(predicate),
            Self::Both(parts) => (parts, false),
            Self::Either(parts) => (parts, true),
        };
        let deciding = sizes.with(|known| parts.iter().position(|part| part.now(&known.scope) == Some(enough)));
        let order = if deciding == Some(1) { [1, 0] } else { [0, 1] };
        let any_is = order.iter().any(|&at| parts[at].decide(sizes) == enough);
        any_is == enough
    }
}

/// Returns true if a comparison holds for the sizes of this call; `None` if these are too large.
pub(crate) fn holds_now(predicate: &Predicate, scope: &Scope) -> Option<bool> {
    Some(predicate.relation.holds(predicate.left.hint(scope)?, predicate.right.hint(scope)?))
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(predicate) => predicate.fmt(f),
            Self::Both(parts) => write!(f, "({} and {})", parts[0], parts[1]),
            Self::Either(parts) => write!(f, "({} or {})", parts[0], parts[1]),
        }
    }
}
