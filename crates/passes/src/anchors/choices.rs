//! By which strategy a product is computed, where somebody knows better than the cost model.
//!
//! A *problem* is a product or convolution as the library would be called for it: sizes, distances in memory, and whether
//! something follows that code could take in. A *strategy* is the library, or code of one form. Choices come with the module:
//!
//! ```mlir
//! module attributes {dynamo.choices = {
//!   "aten.mm.default 4x768[768,1] 768x64[1,768]" = "library",
//!   "aten.mm.default 4x768[768,1] 768x64[1,768] followed" = "dots-rhs-8"}}
//! ```
//! `dynamo-decompose` obeys them, and writes on the primitive which code is meant: `dynamo.choice = "dots-rhs-8"`. `dynamo-plan`
//! cuts loops by it; where it does not suit the operands at hand, as where nothing is said, the cost model decides.
//!
//! With the setting `list-problems=1` the former leaves `dynamo.problems` on the module, an array with a dictionary for each
//! distinct problem that there is more than one strategy for: its text, what to call, and the strategies, the expected one first.

use std::{cell::RefCell, collections::HashMap};

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops,
    pass::PassError,
};

use super::strategy::Strategy;

/// A problem as it is listed.
#[derive(Clone, Debug)]
pub struct Question {
    /// The operator that the library would be called by.
    pub schema: String,
    /// Sizes and strides of each operand that is a tensor.
    pub operands: Vec<(Vec<i64>, Vec<i64>)>,
    /// What a convolution has besides: strides, padding, dilation, groups.
    pub numbers: Vec<Vec<i64>>,
    /// Whether something follows point by point.
    pub followed: bool,
    /// Multiplications.
    pub work: i64,
    /// Code that is worth a try.
    pub strategies: Vec<Strategy>,
}

impl Question {
    /// By which it is known.
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

/// What is to be done about a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays with the library.
    Library,
    /// Code, of this form if it is said.
    Code(Option<Strategy>),
}

/// The choices of a module, and the problems met in it.
#[derive(Debug, Default)]
pub struct Choices {
    known: HashMap<String, Strategy>,
    listed: Option<RefCell<Vec<(String, Attr)>>>,
}

impl Choices {
    /// Those on a module; `lists` says whether problems are to be listed. A problem that the module does not have does no harm.
    ///
    /// # Errors
    /// The attribute is not what it should be.
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

    /// What to do about a problem, of which the cost model expects that code is worth it or not.
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

    /// Choices are taken: what they have led to stands on the primitives.
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
