//! Makes a module that fails smaller, for a bug report or for a human to read.
//!
//! The caller has a test that says if a text still fails in the same way. Edits (`edits.rs`) are tried in ranges that start with all places
//! and are halved down to a single one, from the end of the text to its start, and kept if the test agrees. This is delta debugging (Zeller
//! and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) without its complements, which only repeat here what the
//! next smaller ranges try. It ends when no edit is left that the test agrees to.
//!
//! Upstream's `mlir-reduce` erases operations and leaves their users without operands, so almost everything that it tries inside of a function
//! is invalid. Here an operation's results are first replaced by other values of their types: whatever the test is asked about is valid.
#![forbid(unsafe_code)]

mod edits;

use dynamlir_dialect::{Error, Session, context::module_op};

use edits::Edit;

/// A reduced module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// Its text, without locations unless the failure needs them.
    pub text: String,
    /// The number of operations before, terminators not counted.
    pub before: usize,
    /// The same number now.
    pub after: usize,
    /// The number of texts that the test was asked about.
    pub tried: usize,
}

/// The reason why there is nothing to reduce.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The text is not a valid module.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// The test does not agree to the text itself.
    #[error("the module does not fail the test as it is, so there is nothing to reduce")]
    Passes,
}

/// Returns the smallest module found for which `fails` is true. It is asked about valid texts only, at first about `text` itself.
///
/// # Errors
/// If the text is not a valid module, or does not fail.
pub fn reduce(text: &str, fails: &mut dyn FnMut(&str) -> bool) -> Result<Reduced, Failure> {
    let before = count(text)?;
    if !fails(text) {
        return Err(Failure::Passes);
    }
    let mut search = Search { text: text.to_owned(), fails, tried: 1 };
    // Locations of thousands of lines hide the operations.
    let session = Session::new();
    let bare = module_op(&session.parse(text)?).text();
    search.attempt(bare);
    loop {
        let size = search.text.len();
        for edit in Edit::ALL {
            search.exhaust(edit);
        }
        if search.text.len() >= size {
            break;
        }
    }
    let after = count(&search.text)?;
    Ok(Reduced { text: search.text, before, after, tried: search.tried })
}

/// The search from one failing text to smaller ones.
struct Search<'a> {
    /// The smallest so far.
    text: String,
    fails: &'a mut dyn FnMut(&str) -> bool,
    tried: usize,
}

impl Search<'_> {
    /// Keeps a text if it is another one and fails as well.
    fn attempt(&mut self, text: String) -> bool {
        if text == self.text {
            return false;
        }
        self.tried += 1;
        let kept = (self.fails)(&text);
        if kept {
            self.text = text;
        }
        kept
    }

    /// Tries an edit at all places, in ranges that get smaller, until it fails at each place that is left.
    fn exhaust(&mut self, edit: Edit) {
        let session = Session::new();
        let mut range = self.places(&session, edit);
        while range > 0 {
            let mut end = self.places(&session, edit);
            while end > 0 {
                let start = end.saturating_sub(range);
                if let Some(smaller) = self.edited(&session, edit, start, end) {
                    self.attempt(smaller);
                }
                // A kept edit leaves the places before it as they were, or removes some of them as well.
                end = start.min(self.places(&session, edit));
            }
            range /= 2;
        }
    }

    fn places(&self, session: &Session, edit: Edit) -> usize {
        session.parse(&self.text).map_or(0, |module| edit.places(module_op(&module)))
    }

    /// Returns the text with an edit at some places; `None` if it would not be valid, or nothing can be edited there.
    fn edited(&self, session: &Session, edit: Edit, start: usize, end: usize) -> Option<String> {
        let module = session.parse(&self.text).ok()?;
        let op = module_op(&module);
        let changed = edit.apply(op, start, end) && op.verify();
        session.take_diagnostics();
        changed.then(|| if self.text.contains("loc(") { op.text_with_locations() } else { op.text() })
    }
}

/// Returns the number of operations of a text, terminators not counted.
///
/// # Errors
/// If the text is not a valid module.
fn count(text: &str) -> Result<usize, Error> {
    let session = Session::new();
    let module = session.parse(text)?;
    Ok(Edit::Operation.places(module_op(&module)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
module attributes {some.thing} {
  func.func @other(%x: tensor<6xf32>) -> tensor<6xf32> {
    %0 = dynamo.exp %x : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func @main(%x: !dynamo.tensor<6xf32, [1]>, %y: !dynamo.tensor<6xf32, [1]>)
      -> (!dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>)
      attributes {dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>, #dynamo.base<none>], dynamo.entry,
                  dynamo.outputs = [#dynamo.output<result 2>, #dynamo.output<result 1>, #dynamo.output<result 0>],
                  dynamo.versions = array<i64: 0, 0, 0>} {
    %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %1 = dynamo.aten "aten.mul.Tensor"(%0, %y) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %2 = dynamo.aten "aten.tanh.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %3 = dynamo.aten "aten.neg.default"(%2) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]> loc("user.py":3:0)
    return %0, %2, %3 : !dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>
  }
}
"#;

    #[test]
    fn what_matters_is_left() {
        let mut asked = 0;
        let made = reduce(TEXT, &mut |text| {
            asked += 1;
            assert!(Session::new().parse(text).is_ok(), "the test is asked about valid texts only: {text}");
            text.contains("aten.tanh") && text.contains("dynamo.entry")
        })
        .expect("fails");
        assert_eq!((made.before, made.after, made.tried), (5, 1, asked));
        assert!(!made.text.contains("@other") && !made.text.contains("loc(") && !made.text.contains("some.thing"), "{}", made.text);
        assert!(made.text.contains("aten.tanh.default\"(%arg0)") && made.text.contains("return\n"), "{}", made.text);
        // The result is a smallest one: reducing it once more changes nothing.
        let again = reduce(&made.text, &mut |text| text.contains("aten.tanh") && text.contains("dynamo.entry")).expect("fails");
        assert_eq!(again.text, made.text);
    }

    #[test]
    fn results_keep_their_descriptions() {
        let made =
            reduce(TEXT, &mut |text| text.contains("aten.tanh") && text.contains("output<result 0>") && text.contains("dynamo.versions"));
        let text = made.expect("fails").text;
        assert!(text.contains("output<result 0>") && !text.contains("output<result 1>"), "{text}");
        assert!(text.contains("dynamo.versions = array<i64: 0>"), "{text}");
    }

    #[test]
    fn locations_stay_if_they_matter() {
        let made = reduce(TEXT, &mut |text| text.contains("user.py")).expect("fails");
        assert!(made.text.contains("user.py") && made.after == 1, "{}", made.text);
    }

    #[test]
    fn what_does_not_fail_is_refused() {
        assert!(matches!(reduce(TEXT, &mut |_| false), Err(Failure::Passes)));
        for text in ["", "func.func", "module {\0}", "module { func.func @f() -> f32 { return } }"] {
            let refused = reduce(text, &mut |_| text.is_empty());
            assert!(matches!(refused, Err(Failure::Invalid(_))) || (text.is_empty() && refused.is_ok()), "{text}");
        }
    }
}
