//! The times of kernels and extern calls, for Python.

use std::{sync::Arc, time::Duration};

use dynamlir_runtime::{self as runtime, About, Measured, Tally};
use pyo3::prelude::*;

/// `(name, route, bytes of a call, lines, calls, seconds)`; the route is None for a kernel.
type Step = (String, Option<String>, Option<usize>, Vec<String>, u64, f64);

fn steps(about: &About, tallies: &[Tally]) -> Vec<Step> {
    let row = |(timed, tally): (&runtime::Timed, &Tally)| {
        (timed.name.clone(), timed.route.clone(), timed.bytes, timed.lines.clone(), tally.calls, seconds(*tally))
    };
    about.timed.iter().zip(tallies).map(row).collect()
}

fn seconds(tally: Tally) -> f64 {
    Duration::from_nanos(tally.nanoseconds).as_secs_f64()
}

/// An open profile: see `dynamlir.profile`.
#[pyclass(frozen)]
pub struct Profile {
    inner: Arc<runtime::Profile>,
}

#[pymethods]
impl Profile {
    #[new]
    fn new() -> Self {
        Self { inner: runtime::Profile::open() }
    }

    fn close(&self) {
        self.inner.close();
    }

    /// Returns `(graph, calls, seconds, steps)` of each graph.
    fn graphs(&self) -> Vec<(Option<String>, u64, f64, Vec<Step>)> {
        let row =
            |Measured { about, whole, steps: tallies }| (about.name.get().cloned(), whole.calls, seconds(whole), steps(&about, &tallies));
        self.inner.graphs().into_iter().map(row).collect()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // In case the profile was never exited.
        self.inner.close();
    }
}

/// The measurements of a graph's steps so far; does not keep the graph alive.
#[pyclass(frozen)]
pub struct Times {
    pub about: Arc<About>,
}

#[pymethods]
impl Times {
    /// Returns the steps as in `Profile.graphs`: kernels, then extern calls in their order.
    fn steps(&self) -> Vec<Step> {
        steps(&self.about, &self.about.sums())
    }
}
