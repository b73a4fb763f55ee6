//! Objects that a walk reaches, and what its trail says of them.

use dynamlir_cpython_abi::kind;
use pyo3::prelude::*;

/// What a trail says of an object that a walk has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the step was not recorded.
    None,
    /// Where the trail holds, a live object is at this address: this one, or one made after its death.
    Address,
    /// Where the trail holds, it is this very object.
    Object,
}

/// An object on the way.
#[derive(Clone)]
pub struct Spot<'py> {
    pub(super) object: Bound<'py, PyAny>,
    pub(super) proof: Proof,
}

impl<'py> Spot<'py> {
    /// An object of which nothing is known.
    pub fn unproven(object: Bound<'py, PyAny>) -> Self {
        Self { object, proof: Proof::None }
    }

    /// The object.
    pub fn object(&self) -> &Bound<'py, PyAny> {
        &self.object
    }

    /// What the trail says of it.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Says that its address is its identity: somebody sees to it that it is alive wherever the trail is walked.
    pub fn identify(&mut self) {
        if self.proof == Proof::Address {
            self.proof = Proof::Object;
        }
    }

    /// Whether it is a code object.
    pub fn is_code(&self) -> bool {
        kind::is_code(&self.object)
    }

    /// Whether it is a Python function.
    pub fn is_function(&self) -> bool {
        kind::is_function(&self.object)
    }
}

/// Where a step led: nowhere, too, may be recorded.
pub struct Reached<'py> {
    /// What was found.
    pub object: Option<Bound<'py, PyAny>>,
    /// Whether the trail proves it.
    pub proof: Proof,
}

impl<'py> From<Spot<'py>> for Reached<'py> {
    fn from(spot: Spot<'py>) -> Self {
        Self { object: Some(spot.object), proof: spot.proof }
    }
}

impl<'py> Reached<'py> {
    /// The spot, if anything was found.
    pub fn spot(&self) -> Option<Spot<'py>> {
        Some(Spot { object: self.object.clone()?, proof: self.proof })
    }

    /// Whether it is a code object.
    pub fn is_code(&self) -> bool {
        self.spot().is_some_and(|spot| spot.is_code())
    }

    /// A result that nothing proves.
    pub fn unproven(object: Option<Bound<'py, PyAny>>) -> Self {
        Self { object, proof: Proof::None }
    }
}
