//! Errors of a run as Python exceptions.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use dynamlir_runtime::RunError as Refused;
use dynamlir_torch_abi::TorchError;
use pyo3::{
    create_exception,
    exceptions::{PyException, PyRuntimeError},
    prelude::*,
};

create_exception!(dynamlir._native, NativeError, PyException, "Anything the native side reports.");
create_exception!(dynamlir._native, RunError, NativeError, "A call failed before anything of the caller's was written.");
create_exception!(dynamlir._native, Misaligned, RunError, "Inputs do not lie in memory as the code for a GPU counts on.");
create_exception!(dynamlir._native, Unfit, RunError, "An input is not like the one that the graph was compiled for.");
create_exception!(dynamlir._native, Overlapping, RunError, "Inputs overlap otherwise than those that the graph was compiled for.");
create_exception!(dynamlir._native, WrittenError, PyRuntimeError, "A call failed after something of the caller's was written.");

/// Returns the exception for a run that failed.
pub fn raise_run(refused: &Refused) -> PyErr {
    match refused {
        Refused::Failed(failure) if failure.misaligned => Misaligned::new_err(failure.message.clone()),
        Refused::Guard(unfit) if unfit.overlaps => Overlapping::new_err(refused.to_string()),
        Refused::Guard(_) => Unfit::new_err(refused.to_string()),
        Refused::Failed(_) => RunError::new_err(refused.to_string()),
        Refused::AfterCommit(_) => WrittenError::new_err(refused.to_string()),
    }
}

/// Returns the exception for a function of torch's that failed.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn raise_torch(error: TorchError) -> PyErr {
    NativeError::new_err(error.message().to_owned())
}

/// Runs native code; a panic in it becomes an ordinary exception. The object that it was working on is not used again.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(NativeError::new_err(format!("internal error: {}", text_of(&*panic)))))
}

/// Runs `body`, then `restore`, even if `body` panics. An error of `restore` takes precedence.
pub(crate) fn restoring<T>(restore: impl FnOnce() -> PyResult<()>, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    struct OnPanic<F: FnOnce() -> PyResult<()>>(Option<F>);
    impl<F: FnOnce() -> PyResult<()>> OnPanic<F> {
        fn restore(&mut self) -> PyResult<()> {
            self.0.take().map_or(Ok(()), |restore| restore())
        }
    }
    impl<F: FnOnce() -> PyResult<()>> Drop for OnPanic<F> {
        fn drop(&mut self) {
            // Nobody could take its error: the panic goes on.
            let _ = self.restore();
        }
    }
    let mut guard = OnPanic(Some(restore));
    let result = body();
    guard.restore().and(result)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_a_body_sets_is_restored_once_also_after_a_panic() {
        let restored = Cell::new(0);
        let restore = || {
            restored.set(restored.get() + 1);
            Ok(())
        };
        assert!(matches!(restoring(restore, || Ok(restored.get())), Ok(0)));
        assert_eq!(restored.get(), 1);
        let unwound = catch_unwind(AssertUnwindSafe(|| restoring::<()>(restore, || panic!("the body")))).map(drop);
        assert_eq!(unwound.err().as_deref().map(text_of), Some("the body".to_owned()));
        assert_eq!(restored.get(), 2);
    }
}
