//! Objects that a walk reaches, and what its trail proves about them.

use dynamlir_cpython_abi::kind;
use pyo3::prelude::*;

/// The evidence in a trail about an object that a walk has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the step was not recorded.
    None,
    /// If the trail holds, a live object is at this address: this one, or one created after its death.
    Address,
    /// If the trail holds, it is this very object.
    Object,
}

/// An object on the walk.
#[derive(Clone)]
pub struct Spot<'py> {
    pub(super) object: Bound<'py, PyAny>,
    pub(super) proof: Proof,
}

impl<'py> Spot<'py> {
    /// Creates a spot for an object about which nothing is proven.
    pub fn unproven(object: Bound<'py, PyAny>) -> Self {
        Self { object, proof: Proof::None }
    }

    /// Returns the object.
    pub fn object(&self) -> &Bound<'py, PyAny> {
        &self.object
    }

    /// Returns what the trail proves about it.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Declares that its address is its identity: the caller ensures that it is alive whenever the trail is walked.
    pub fn identify(&mut self) {
        if self.proof == Proof::Address {
            self.proof = Proof::Object;
        }
    }

    /// Returns true if it is a code object.
    pub fn is_code(&self) -> bool {
        kind::is_code(&self.object)
    }

    /// Returns true if it is a Python function.
    pub fn is_function(&self) -> bool {
        kind::is_function(&self.object)
    }
}

/// The result of a step. The absence of an object may be recorded as well.
pub struct Reached<'py> {
    /// The object that was found, if any.
    pub object: Option<Bound<'py, PyAny>>,
    /// The proof that the trail gives for it.
    pub proof: Proof,
}

impl<'py> From<Spot<'py>> for Reached<'py> {
    fn from(spot: Spot<'py>) -> Self {
        Self { object: Some(spot.object), proof: spot.proof }
    }
}

impl<'py> Reached<'py> {
    /// Returns the spot, if an object was found.
    pub fn spot(&self) -> Option<Spot<'py>> {
        Some(Spot { object: self.object.clone()?, proof: self.proof })
    }

    /// Returns true if it is a code object.
    pub fn is_code(&self) -> bool {
        self.spot().is_some_and(|spot| spot.is_code())
    }

    /// Creates a result without proof.
    pub fn unproven(object: Option<Bound<'py, PyAny>>) -> Self {
        Self { object, proof: Proof::None }
    }
}
