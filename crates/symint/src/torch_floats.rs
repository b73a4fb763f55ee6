//! Floats that torch computes from sizes. They stay symbolic until a value is needed: most are scale factors of tensors of which only the
//! sizes are used.

use std::{fmt, sync::Arc};

use dynamlir_shapes::{Dim, Dimension, Predicate, Relation};

use crate::Sizes;

/// An operation on two floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
}

/// A float.
#[derive(Clone, Debug)]
pub(crate) enum Float {
    /// A known number.
    Number(f64),
    /// A size, converted.
    Size(Dim),
    /// The result of an operation.
    Made(Operation, Arc<[Self; 2]>),
}

/// Integers below this are exact doubles, and so are their halves, quarters and so on that occur here.
const EXACT: i64 = 1 << 51;

/// The largest power of two by which an exact number is divided.
const MOST_HALVINGS: u32 = 16;

impl Float {
    pub fn made(operation: Operation, left: Self, right: Self, sizes: &Sizes) -> Self {
        if let (Self::Number(left), Self::Number(right)) = (&left, &right) {
            return Self::Number(operation.of(*left, *right));
        }
        if let (Operation::Div, Self::Size(above), Self::Size(below)) = (operation, &left, &right)
            && let Some(quotient) = sizes.quotient(above, below)
        {
            return Self::Size(quotient);
        }
        Self::Made(operation, Arc::new([left, right]))
    }

    /// Returns the number that it is, and guards it.
    pub fn number(&self, sizes: &Sizes) -> f64 {
        self.now(&|size| sizes.settle(size))
    }

    /// Returns the number that it is for these values of the sizes.
    #[expect(clippy::cast_precision_loss, reason = "as Python converts an int, within 53 bits; torch has no larger sizes")]
    pub fn now(&self, size: &dyn Fn(&Dim) -> i64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Size(dim) => size(dim) as f64,
            Self::Made(operation, parts) => operation.of(parts[0].now(size), parts[1].now(size)),
        }
    }

    /// Returns true if a comparison with another float holds, and guards the answer.
    pub fn compares(&self, relation: Relation, other: &Self, sizes: &Sizes) -> bool {
        if let (Some((left, over)), Some((right, under))) = (self.ratio(sizes), other.ratio(sizes)) {
            let sides = left.mul(&under).and_then(|left| Ok((left, right.mul(&over)?)));
            if let Ok((left, right)) = sides
                && is_exact(&left, sizes)
                && is_exact(&right, sizes)
            {
                return sizes.decide(&Predicate::new(left, relation, right));
            }
        }
        let order = self.number(sizes).partial_cmp(&other.number(sizes));
        // A NaN is unordered.
        order.map_or(relation == Relation::Ne, |order| relation.holds(order as i64, 0))
    }

    /// Returns the largest integer that is not greater.
    pub fn floor(&self, sizes: &Sizes) -> Dim {
        match self.ratio(sizes) {
            Some((above, below)) => sizes.made(above.floordiv(&below)),
            None => whole(self.number(sizes).floor()),
        }
    }

    /// Returns the smallest integer that is not less.
    pub fn ceil(&self, sizes: &Sizes) -> Dim {
        match self.ratio(sizes) {
            Some((above, below)) => {
                let turned = Dim::from(0).sub(&above).and_then(|above| above.floordiv(&below));
                sizes.made(turned.and_then(|floor| Dim::from(0).sub(&floor)))
            }
            None => whole(self.number(sizes).ceil()),
        }
    }

    /// Returns the nearest integer towards zero.
    pub fn trunc(&self, sizes: &Sizes) -> Dim {
        if self.compares(Relation::Ge, &Self::Number(0.0), sizes) { self.floor(sizes) } else { self.ceil(sizes) }
    }

    /// Returns the value as a fraction of integers, small enough that rounding it to a double does not cross an integer. The denominator is
    /// positive.
    fn ratio(&self, sizes: &Sizes) -> Option<(Dim, Dim)> {
        let (above, below) = if let Self::Made(Operation::Div, parts) = self {
            let ((above, halvings), (below, doublings)) = (parts[0].halved()?, parts[1].halved()?);
            (above.mul(&power(doublings)).ok()?, below.mul(&power(halvings)).ok()?)
        } else {
            let (above, halvings) = self.halved()?;
            (above, power(halvings))
        };
        let positive = sizes.decide(&Predicate::new(below.clone(), Relation::Gt, 0));
        (positive && is_exact(&above, sizes)).then_some((above, below))
    }

    /// Returns the value as an integer and the number of times it is halved, if doubles represent it exactly.
    fn halved(&self) -> Option<(Dim, u32)> {
        match self {
            Self::Size(size) => Some((size.clone(), 0)),
            Self::Number(number) => {
                let halvings = (0..=MOST_HALVINGS).find(|halvings| (number * f64::from(1_u32 << halvings)).fract() == 0.0)?;
                let doubled = number * f64::from(1_u32 << halvings);
                (doubled.abs() < f64::from(1_u32 << 24)).then(|| (whole(doubled), halvings))
            }
            Self::Made(operation, parts) => {
                let ((left, most), (right, more)) = (parts[0].halved()?, parts[1].halved()?);
                let halvings = most.max(more);
                let aligned = |size: &Dim, by: u32| size.mul(&power(halvings - by));
                let made = match operation {
                    Operation::Add => aligned(&left, most).ok()?.add(&aligned(&right, more).ok()?),
                    Operation::Sub => aligned(&left, most).ok()?.sub(&aligned(&right, more).ok()?),
                    Operation::Mul if most + more <= MOST_HALVINGS => return Some((left.mul(&right).ok()?, most + more)),
                    _ => return None,
                };
                Some((made.ok()?, halvings))
            }
        }
    }
}

impl Operation {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Sub => left - right,
            Self::Mul => left * right,
            Self::Div => left / right,
            Self::Pow => left.powf(right),
            Self::Min => left.min(right),
            Self::Max => left.max(right),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number")]
fn whole(number: f64) -> Dim {
    Dim::from(number as i64)
}

fn power(of_two: u32) -> Dim {
    Dim::from(1 << of_two)
}

fn is_exact(size: &Dim, sizes: &Sizes) -> bool {
    let within = |relation, bound: i64| sizes.needs(&Predicate::new(size.clone(), relation, bound));
    within(Relation::Lt, EXACT) && within(Relation::Gt, -EXACT)
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Made(operation, parts) => write!(f, "{operation:?}({}, {})", parts[0], parts[1]),
        }
    }
}
