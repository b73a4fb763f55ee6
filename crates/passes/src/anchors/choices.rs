//! The strategy used to compute a product, where an explicit choice overrides the cost model.
//!
//! A *problem* is a product or convolution as the library would be called for it: sizes, strides, and whether operations follow that
//! generated code could fuse. A *strategy* is the library, or generated code of one form. The module carries the choices:
//!
//! ```mlir
//! module attributes {dynamo.choices = {
//!   "aten.mm.default 4x768[768,1] 768x64[1,768]" = "library",
//!   "aten.mm.default 4x768[768,1] 768x64[1,768] followed" = "dots-rhs-8"}}
//! ```
//! `dynamo-decompose` obeys them, and records the chosen code on the primitive: `dynamo.choice = "dots-rhs-8"`. `dynamo-plan` cuts the
//! loops accordingly. If the choice does not suit the actual operands, or there is none, the cost model decides.
//!
//! With the setting `list-problems=1`, `dynamo-decompose` leaves `dynamo.problems` on the module: an array with one dictionary for each
//! distinct problem that has more than one strategy. It contains the problem's text, the call, and the strategies, the expected one first.

use std::{cell::RefCell, collections::HashMap};

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops,
    pass::PassError,
};

use super::strategy::Strategy;

/// A problem, as listed.
#[derive(Clone, Debug)]
pub struct Question {
    /// The operator used for the library call.
    pub schema: String,
    /// Sizes and strides of each tensor operand.
    pub operands: Vec<(Vec<i64>, Vec<i64>)>,
    /// The other arguments of a convolution: strides, padding, dilation, groups.
    pub numbers: Vec<Vec<i64>>,
    /// True if pointwise operations follow.
    pub followed: bool,
    /// Number of multiplications.
    pub work: i64,
    /// The code strategies worth trying.
    pub strategies: Vec<Strategy>,
}

impl Question {
    /// The text that identifies the problem.
    pub fn text(&self) -> String {
        let joined = |values: &[i64], by: &str| values.iter().map(i64::to_string).collect::<Vec<_>>().join(by);
        let operands = self.operands.iter().map(|(sizes, strides)| format!(" {}[{}]", joined(sizes, "x"), joined(strides, ",")));
        let names = ["strides", "padding", "dilation", "groups"];
        let numbers = names.into_iter().zip(&self.numbers).map(|(name, values)| format!(" {name} {}", joined(values, ",")));
        let followed = self.followed.then(|| " followed".to_owned());
        self.schema.clone() + &operands.chain(numbers).chain(followed).collect::<String>()
    }
    fn to_attr(&self, ctx: Ctx, expected: bool) -> Attr {
        let lists =
            |lists: &mut dyn Iterator<Item = &Vec<i64>>| Attr::array(ctx, &lists.map(|list| Attr::i64s(ctx, list)).collect::<Vec<_>>());
        let library = [Strategy::Library];
        let ordered: Vec<&Strategy> =
            if expected { self.strategies.iter().chain(&library).collect() } else { library.iter().chain(&self.strategies).collect() };
        let strategies: Vec<_> = ordered.into_iter().map(|strategy| Attr::str(ctx, &strategy.to_string())).collect();
        Attr::dict(
            ctx,
            &[
                ("followed", Attr::bool(ctx, self.followed)),
                ("numbers", lists(&mut self.numbers.iter())),
                ("problem", Attr::str(ctx, &self.text())),
                ("schema", Attr::str(ctx, &self.schema)),
                ("sizes", lists(&mut self.operands.iter().map(|(sizes, _)| sizes))),
                ("strides", lists(&mut self.operands.iter().map(|(_, strides)| strides))),
                ("strategies", Attr::array(ctx, &strategies)),
                ("work", Attr::i64(ctx, self.work)),
            ],
        )
    }
}

/// The decision about a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The product is computed by the library.
    Library,
    /// The product is computed by generated code, of this form if one is given.
    Code(Option<Strategy>),
}

/// The choices of a module, and the problems encountered in it.
#[derive(Debug, Default)]
pub struct Choices {
    known: HashMap<String, Strategy>,
    listed: Option<RefCell<Vec<(String, Attr)>>>,
}

impl Choices {
    /// Reads the choices of a module; `lists`: problems are to be listed. A choice for a problem that the module does not contain does no
    /// harm.
    ///
    /// # Errors
    /// If the attribute is malformed.
    pub fn of(module: Op, lists: bool) -> Result<Self, PassError> {
        let listed = lists.then(RefCell::default);
        let Some(attr) = ops::CHOICES.of(module) else { return Ok(Self { known: HashMap::new(), listed }) };
        let entries = attr.entries();
        if entries.is_empty() {
            return Err(PassError::module(format!("'{}' must be a dictionary of strings, got {attr}", ops::CHOICES.name())));
        }
        let read = |(problem, attr): (String, Attr)| {
            let text = attr.as_str().ok_or_else(|| format!("expected a string, got {attr}"));
            let strategy = text
                .and_then(|text| text.parse())
                .map_err(|error| PassError::module(format!("'{}' of '{problem}': {error}", ops::CHOICES.name())));
            strategy.map(|strategy| (problem, strategy))
        };
        Ok(Self { known: entries.into_iter().map(read).collect::<Result<_, _>>()?, listed })
    }

    /// Returns the decision about a problem; `expected`: the cost model expects code to be worthwhile.
    pub fn decide(&self, ctx: Ctx, expected: bool, describe: impl FnOnce() -> Option<Question>) -> Decision {
        let modelled = if expected { Decision::Code(None) } else { Decision::Library };
        if self.known.is_empty() && self.listed.is_none() {
            return modelled;
        }
        let Some(question) = describe() else { return modelled };
        let text = question.text();
        if let Some(listed) = self.listed.as_ref().filter(|listed| listed.borrow().iter().all(|(known, _)| *known != text)) {
            listed.borrow_mut().push((text.clone(), question.to_attr(ctx, expected)));
        }
        match self.known.get(&text) {
            Some(Strategy::Library) => Decision::Library,
            Some(&strategy) => Decision::Code(Some(strategy)),
            None => modelled,
        }
    }

    /// Removes the choices from the module: their outcome is recorded on the primitives.
    pub fn finish(&self, module: Op) {
        ops::CHOICES.remove(module);
        if let Some(listed) = &self.listed {
            let all: Vec<_> = listed.borrow().iter().map(|&(_, attr)| attr).collect();
            ops::PROBLEMS.set(module, &all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_all_that_decides() {
        let question = Question {
            schema: "aten.convolution.default".into(),
            operands: vec![(vec![1, 3, 8, 8], vec![192, 64, 8, 1]), (vec![16, 3, 3, 3], vec![27, 9, 3, 1])],
            numbers: vec![vec![1, 1], vec![0, 1], vec![1, 1], vec![1]],
            followed: true,
            work: 1,
            strategies: Vec::new(),
        };
        let text = "aten.convolution.default 1x3x8x8[192,64,8,1] 16x3x3x3[27,9,3,1] strides 1,1 padding 0,1 dilation 1,1 groups 1 followed";
        assert_eq!(question.text(), text);
    }
}
