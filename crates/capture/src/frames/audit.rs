//! Audits, as defined by [`dynamlir_frame::Recapture`]: an audit repeats a capture with the decisions of the one that an entry was created
//! from, and compares both as text: the program with its constants, the steps after it, the guards.
//!
//! Decisions that the first capture was free to make are made the same way: which floats and ints are inputs, which sizes are symbols,
//! where the graph ends, what was assumed for faster code. Everything else that a capture decides is guarded. So if the guards have passed,
//! either the texts are equal or a guard is missing.

use std::sync::Arc;

use dynamlir_cpython_abi::collector;
use dynamlir_frame::{Difference, Entry, EpilogueText, Miss, Recapture, Run, ValueHistory, Verdict, content, without_addresses};
use dynamlir_graph::{Graph, Kind, Line, NodeId};
use dynamlir_guards::{Texts, sharing};
use dynamlir_symint::Unbacked;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    frames::{
        attempt_options::AttemptOptions,
        run::{Breaks, CaptureRequest, Captured, Ended, Tables, capture_once},
    },
    state::{Instead, State, dynamic_sizes::Dynamic, size_decisions::Decided},
};

/// The decisions of a capture that no guard checks.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a capture, as `CaptureRequest` has them")]
pub struct Decisions {
    floats: Option<Arc<ValueHistory>>,
    reads: bool,
    dynamic: Dynamic,
    unbacked: Unbacked,
    unrolls: bool,
    breaks: Breaks,
    every: Option<usize>,
    stop: Option<usize>,
    denies: bool,
    /// True if CPython makes another call at the break than the frame would.
    has_instead: bool,
    mode: AttemptOptions,
    /// True if code of the program ran without being traced into. A replay would run it again.
    opaque: bool,
    sizes: Arc<Decided>,
    /// The symbolic numbers by their source expressions, with the values that they had.
    values: Vec<(String, String)>,
}

impl Decisions {
    /// The decisions of a capture that is about to end.
    pub(crate) fn of(request: CaptureRequest<'_, '_>, mode: AttemptOptions, state: &State) -> Self {
        Self {
            floats: request.history.map(|floats| Arc::new(floats.frozen())),
            reads: request.reads,
            dynamic: request.sizes,
            unbacked: request.unbacked,
            unrolls: request.unrolls,
            breaks: request.breaks,
            every: request.every,
            stop: request.stop,
            denies: request.denies,
            has_instead: request.instead.is_some(),
            mode,
            opaque: state.progress.opaque.get(),
            sizes: Arc::new(state.sizes.decided(|source| state.guards.expression(source))),
            values: state.sizes.values(),
        }
    }

    /// Returns the decisions about sizes.
    pub(crate) fn sizes(&self) -> Arc<Decided> {
        self.sizes.clone()
    }
}

/// The outcome of a capture as text.
#[derive(Clone, Default)]
struct Words {
    /// The reason for its failure, if it failed.
    failure: Vec<Spoken>,
    /// The nodes of the graph, and the operations that were recorded for them.
    program: Vec<Spoken>,
    /// The names of the graph's inputs, with their source expressions.
    inputs: Vec<(String, String)>,
    /// The steps after the graph, the result last.
    after: Vec<Spoken>,
    /// The guards.
    guards: Vec<Spoken>,
    /// Source expressions that the guards ask nothing about.
    unasked: Vec<String>,
    /// The symbolic numbers by their source expressions.
    values: Vec<(String, String)>,
}

/// The objects that an audited call finds at the expressions of its entry.
#[derive(Default)]
struct KnownObjects {
    /// Values, in the text form of [`content`].
    contents: FxHashMap<String, String>,
    /// For an object that several expressions reach: each further expression with the first one, sorted by decreasing length.
    places: Vec<(String, String)>,
}

impl KnownObjects {
    /// Collects them from the expressions of an entry and their present values. `is_input` returns true for the positions of tensors
    /// that the graph takes.
    fn of(expressions: &[String], values: &[Option<Bound<'_, PyAny>>], is_input: impl Fn(usize) -> bool) -> Self {
        let mut known = Self::default();
        for (at, (place, value)) in expressions.iter().zip(values).enumerate() {
            let Some(value) = value else { continue };
            let first = values.iter().position(|other| other.as_ref().is_some_and(|other| other.is(value)));
            let first = first.and_then(|first| expressions.get(first)).filter(|first| *first != place);
            match content(value).filter(|_| !is_input(at)) {
                // The entry returns the object itself. Comparing its value is equivalent here.
                Some(content) => _ = known.contents.insert(place.clone(), content),
                None => known.places.extend(first.map(|first| (place.clone(), first.clone()))),
            }
        }
        known.places.sort_by(|(a, _), (b, _)| (b.len(), b).cmp(&(a.len(), a)));
        known
    }

    /// Replaces each expression by its value, or by the first expression of the same object.
    fn in_place_of(&self, expressions: &[String]) -> Vec<String> {
        let first = |place: &String| self.places.iter().find(|(other, _)| other == place).map(|(_, first)| first);
        let known = |place| self.contents.get(place).or_else(|| first(place)).unwrap_or(place);
        expressions.iter().map(|place| known(place).clone()).collect()
    }

    /// Names each object in a guard by its first expression.
    fn renamed(&self, mut guard: String) -> String {
        self.places.iter().for_each(|(place, first)| replace(&mut guard, place, first));
        guard
    }
}

/// Pairs the steps with the Python lines of those that are effects.
fn with_lines(steps: Vec<String>, effects: impl Iterator<Item = Vec<Line>>) -> Vec<Spoken> {
    let mut lines = effects.chain(std::iter::repeat_with(Vec::new));
    steps.into_iter().map(|step| (step, lines.next().unwrap_or_default())).collect()
}

/// The nodes of a graph except unused inputs and unused `item` calls on them. If such an argument is returned, the steps after the
/// graph say so.
fn concerning<O>(graph: &Graph<O>) -> FxHashSet<NodeId> {
    let (mut used, mut concerning) = (FxHashSet::default(), FxHashSet::default());
    let ids: Vec<_> = graph.ids().collect();
    for id in ids.into_iter().rev() {
        let node = graph.node(id);
        let reads = node.kind == Kind::Placeholder || node.kind == Kind::CallMethod && node.target.base == "item";
        if reads && !used.contains(&id) {
            continue;
        }
        concerning.insert(id);
        node.args
            .iter()
            .chain(node.kwargs.iter().map(|(_, value)| value))
            .for_each(|argument| argument.nodes(&mut |id| _ = used.insert(id)));
    }
    concerning
}

/// A line of text, and the Python lines that it concerns, innermost first.
type Spoken = (String, Vec<Line>);

impl Words {
    /// Describes a capture. In its steps, expressions that `known` contains are replaced by their values.
    fn of(py: Python<'_>, captured: &Captured, known: &KnownObjects) -> PyResult<Self> {
        let fingerprint = dynamlir_cpython_abi::import(py, "dynamlir.capture.fingerprint")?;
        let session = captured.session.bind(py);
        let recorded: Vec<Spoken> = fingerprint.call_method1("program", (session,))?.extract()?;
        let graph = &captured.graph;
        let node = |id| (without_addresses(&graph.line(id)), graph.node(id).location.clone());
        let concerns = concerning(graph);
        let input = |id| (graph.node(id).target.base.clone(), graph.node(id).target.qualified.clone());
        let steps = EpilogueText::new(&known.in_place_of(&captured.guards.collected())).steps(py, &captured.epilogue);
        Ok(Self {
            program: graph.ids().filter(|id| concerns.contains(id)).map(node).chain(recorded).collect(),
            inputs: graph.placeholders().map(input).collect(),
            after: with_lines(steps, captured.effects.iter().map(|(_, lines)| lines.clone())),
            values: captured.decisions.as_ref().map(|decisions| decisions.values.clone()).unwrap_or_default(),
            ..Self::default()
        })
    }

    /// Drops the guards about places whose values are known.
    fn without_known(mut self, known: &KnownObjects) -> Self {
        self.guards.retain(|(guard, _)| !known.contents.keys().any(|place| guard.contains(&**place)));
        self
    }

    /// Names each object by its first expression, in guards and in the program, where inputs have names of their own.
    fn renamed(mut self, known: &KnownObjects) -> Self {
        if known.places.is_empty() {
            return self;
        }
        for (line, _) in &mut self.program {
            self.inputs.iter().for_each(|(name, place)| replace(line, name, place));
            *line = known.renamed(std::mem::take(line));
        }
        self.guards = self.guards.into_iter().map(|(guard, lines)| (known.renamed(guard), lines)).collect();
        self
    }

    fn of_broken(reason: &str, message: &str, location: Vec<Line>) -> Self {
        Self { failure: vec![(format!("{reason} ({message})"), location)], ..Self::default() }
    }

    fn with_guards(mut self, texts: &Texts) -> Self {
        let mut parts = texts.code_parts();
        // Guards that two places hold one object are left out: where that mattered, the program differs as well.
        let identities: FxHashSet<_> = texts.identities().collect();
        parts.retain(|part| !identities.contains(part));
        parts.sort_unstable();
        parts.dedup();
        self.guards = parts.into_iter().map(|part| (part, Vec::new())).collect();
        self.unasked = texts.unasked();
        self
    }

    /// Returns the first difference between the two.
    fn difference(&self, other: &Self) -> Option<Difference> {
        let nothing = || ("nothing".to_owned(), Vec::new());
        let first = |kept: &[Spoken], found: &[Spoken]| {
            let at = (0..kept.len().max(found.len())).find(|&at| kept.get(at).map(|line| &line.0) != found.get(at).map(|line| &line.0))?;
            Some((kept.get(at).cloned().unwrap_or_else(nothing), found.get(at).cloned().unwrap_or_else(nothing)))
        };
        let parts = [
            ("whether it can be captured", &self.failure, &other.failure),
            ("the program", &self.program, &other.program),
            ("what is done after the graph", &self.after, &other.after),
        ];
        let found = parts.into_iter().find_map(|(what, kept, found)| Some((what, first(kept, found)?)));
        let (what, (kept, found)) = if let Some(found) = found {
            found
        } else {
            let lacking = |all: &[Spoken], of: &[Spoken]| {
                let known: FxHashSet<_> = of.iter().map(|(text, _)| asked(text)).collect();
                all.iter().find(|(text, _)| !known.contains(asked(text))).cloned()
            };
            // Asking less than before is not an error: Python may have cached what it had to find out then. Neither is asking more about a
            // value that is only passed on: for a value of another kind more may be noted, but the outcome is the same.
            let is_new = |(guard, _): &&Spoken| !self.unasked.iter().any(|place| is_about(guard, place)) && !self.implies(guard);
            let more: Vec<_> = other.guards.iter().filter(is_new).cloned().collect();
            let found = lacking(&more, &self.guards)?;
            ("the guards", (lacking(&self.guards, &other.guards).unwrap_or_else(nothing), found))
        };
        let (places, guards) = self.blamed(other, &kept.0, &found.0);
        let location = if found.1.is_empty() { kept.1 } else { found.1 };
        Some(Difference { what, kept: kept.0, found: found.0, places, guards, location })
    }

    /// Returns true if these guards imply the given one, or if it only checks that a place is not empty: if that mattered, the programs
    /// would differ.
    fn implies(&self, guard: &str) -> bool {
        if guard.ends_with(" is not ___nothing") || guard.starts_with('\'') && guard.contains("' in ") {
            return true;
        }
        let distinct = |guard: &str| {
            let members = guard.strip_prefix("___all_different(")?.strip_suffix(')')?;
            Some(members.split(", ").map(str::to_owned).collect::<FxHashSet<_>>())
        };
        let within = |members: &FxHashSet<_>, (other, _): &Spoken| distinct(other).is_some_and(|others| members.is_subset(&others));
        distinct(guard).is_some_and(|members| self.guards.iter().any(|other| within(&members, other)))
    }

    /// Returns the source expressions of the symbolic numbers that have changed, with the guards about them. If `kept` has the former value
    /// of some and `found` their new one, returns only those.
    fn blamed(&self, other: &Self, kept: &str, found: &str) -> (Vec<String>, Vec<String>) {
        let new = |place: &str| other.values.iter().find(|(other, _)| other == place).map(|(_, value)| value);
        let changed = self.values.iter().filter_map(|(place, old)| Some((place, old, new(place).filter(|new| *new != old)?)));
        let changed: Vec<_> = changed.collect();
        let named = |(_, old, new): &&(&String, &String, &String)| has_word(kept, old) && has_word(found, new);
        let mut blamed: Vec<_> = changed.iter().filter(named).copied().collect();
        if blamed.is_empty() {
            blamed = changed;
        }
        let is_about = |guard: &str| blamed.iter().any(|(place, ..)| guard.contains(place.split(".size()").next().unwrap_or(place)));
        let guards = self.guards.iter().filter(|(guard, _)| is_about(guard)).map(|(guard, _)| guard.clone()).collect();
        (blamed.iter().map(|(place, old, new)| format!("{place}, which was {old} and is {new}")).collect(), guards)
    }
}

/// Returns a guard without the comment that describes the object of an address.
fn asked(guard: &str) -> &str {
    let by_address = guard.starts_with("___check_obj_id(") || guard.starts_with("___check_type_id(");
    guard.split_once("  # ").filter(|_| by_address).map_or(guard, |(asked, _)| asked)
}

/// Returns true if a guard is about a place, or about a place below it.
fn is_about(guard: &str, place: &str) -> bool {
    occurrences(guard, place).next().is_some()
}

/// Returns the positions in a guard of a place, alone or as the start of a longer expression.
fn occurrences(guard: &str, place: &str) -> impl Iterator<Item = usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    guard.match_indices(place).map(|(at, _)| at).filter(move |&at| {
        let (before, after) = (guard[..at].chars().next_back(), guard[at + place.len()..].chars().next());
        !before.is_some_and(|c| is_name(c) || c == '.') && !after.is_some_and(is_name)
    })
}

/// Replaces each occurrence of a place in a text by another place.
fn replace(text: &mut String, place: &str, other: &str) {
    let found: Vec<_> = occurrences(text, place).collect();
    found.into_iter().rev().for_each(|at| text.replace_range(at..at + place.len(), other));
}

/// Returns true if a text contains a number as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
    let ends = |at: usize| {
        let (before, after) = (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    text.match_indices(word).any(|(at, _)| ends(at))
}

/// The state that an entry keeps for its audits.
pub(crate) struct Audit {
    decisions: Decisions,
    words: Words,
    /// The memory sharing among the tensors that the graph takes. The graph checks it when it runs.
    sharing: Vec<(usize, i64)>,
    /// The source expressions of the objects that the guards collect.
    collected: Vec<String>,
}

impl Audit {
    /// Describes a capture that an entry is created from, before other code uses it.
    pub(crate) fn of(py: Python<'_>, decisions: Decisions, captured: &Captured) -> PyResult<Self> {
        let words = Words { values: decisions.values.clone(), ..Words::of(py, captured, &KnownObjects::default())? };
        let inputs: Vec<_> = captured.inputs.iter().map(|input| input.real.bind(py).clone()).collect();
        Ok(Self { decisions, words, sharing: sharing(&inputs)?, collected: captured.guards.collected() })
    }

    /// Adds the guards.
    pub(crate) fn of_guards(self, texts: &Texts) -> Self {
        Self { words: self.words.with_guards(texts), ..self }
    }

    /// Returns the entry's steps after the graph as text, given these known values.
    fn kept(&self, py: Python<'_>, entry: &Entry, known: &KnownObjects) -> Vec<Spoken> {
        let Run::Graph { epilogue, .. } = &entry.run else { return Vec::new() };
        let steps = EpilogueText::new(&known.in_place_of(&self.collected)).steps(py, epilogue);
        with_lines(steps, self.words.after.iter().map(|(_, lines)| lines.clone()))
    }

    /// Captures a call again with the same decisions.
    fn recapture(&self, call: &Miss<'_, '_>, known: &KnownObjects) -> PyResult<Words> {
        let py = call.function.py();
        let tables = Tables::of(py)?;
        let decisions = &self.decisions;
        let request = CaptureRequest {
            history: decisions.floats.as_ref(),
            reads: decisions.reads,
            sizes: decisions.dynamic,
            unbacked: decisions.unbacked,
            from: call.from,
            unrolls: decisions.unrolls,
            breaks: decisions.breaks,
            every: decisions.every,
            stop: decisions.stop,
            denies: decisions.denies,
            replays: Some(decisions),
            ..CaptureRequest::new(call.function, &call.given.args, Some(&call.given.kwargs))
        };
        let outcome = match self.instead(&tables, request) {
            Ok(instead) => capture_once(&tables, CaptureRequest { instead: instead.as_ref(), ..request }, decisions.mode),
            Err(ended) => Err(ended),
        };
        match outcome {
            Ok(Ok(captured)) => {
                let words = Words::of(py, &captured, known)?;
                Ok(words.with_guards(&captured.guards.into_texts(py)?).without_known(known).renamed(known))
            }
            Ok(Err(failure)) => {
                let found = failure.graph_break;
                Ok(Words::of_broken(found.reason, &found.message, found.location))
            }
            Err(Ended::Interrupted(error)) => Err(error),
            Err(Ended::Failed(error)) => Ok(Words::of_broken("internal", &error.to_string(), Vec::new())),
        }
    }

    /// Returns the call that CPython makes at the break in place of the frame's own, if there is one. The attempt without a stop reports
    /// it.
    fn instead(&self, tables: &Tables, request: CaptureRequest<'_, '_>) -> Result<Option<Instead>, Ended> {
        if !self.decisions.has_instead {
            return Ok(None);
        }
        let first = capture_once(tables, CaptureRequest { stop: None, every: None, ..request }, self.decisions.mode)?;
        Ok(first.err().and_then(|failure| failure.instead))
    }
}

impl Recapture for Audit {
    fn replay<'py>(&self, call: &Miss<'_, 'py>, entry: &Entry, values: &[Option<Bound<'py, PyAny>>]) -> PyResult<Verdict> {
        let py = call.function.py();
        if self.decisions.opaque {
            return Ok(Verdict::Skipped("it calls a function that is not looked into, which runs each time".to_owned()));
        }
        let Run::Graph { tensors, .. } = &entry.run else { return Ok(Verdict::Same) };
        let given: Vec<_> = tensors.iter().filter_map(|&at| values.get(at).cloned().flatten()).collect();
        if self.sharing != sharing(&given)? {
            return Ok(Verdict::Skipped("its tensors share memory as they did not when it was captured".to_owned()));
        }
        let _no_collection = collector::pause(py);
        let known = KnownObjects::of(&self.collected, values, |at| tensors.contains(&at));
        let kept = Words { after: self.kept(py, entry, &known), ..self.words.clone() }.renamed(&known);
        let found = self.recapture(call, &known)?;
        let Some(difference) = kept.difference(&found) else { return Ok(Verdict::Same) };
        // If two recaptures differ from each other, a difference proves nothing.
        Ok(match found.difference(&self.recapture(call, &known)?) {
            Some(between) => Verdict::Unsteady(Box::new(between)),
            None => Verdict::Differs(Box::new(difference)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &str, guard: &str, value: &str) -> Words {
        let line = |text: &str| vec![(text.to_owned(), Vec::new())];
        Words { program: line(program), guards: line(guard), values: vec![("L['h']".into(), value.into())], ..Words::default() }
    }

    #[test]
    fn what_changed_and_is_in_the_program_is_blamed() {
        let (kept, found) = (words("mul(x, 2)", "type(L['h'])", "2"), words("mul(x, 3)", "type(L['h'])", "3"));
        let difference = kept.difference(&found).expect("they differ");
        assert_eq!((difference.what, &*difference.kept, &*difference.found), ("the program", "mul(x, 2)", "mul(x, 3)"));
        assert_eq!(difference.places, ["L['h'], which was 2 and is 3"]);
        assert_eq!(difference.guards, ["type(L['h'])"]);
        assert!(kept.difference(&words("mul(x, 2)", "type(L['h'])", "9")).is_none());
    }

    #[test]
    fn other_guards_are_a_difference() {
        let difference = words("x", "a", "1").difference(&words("x", "b", "1")).expect("they differ");
        assert_eq!((difference.what, &*difference.kept, &*difference.found), ("the guards", "a", "b"));
    }

    #[test]
    fn guards_of_what_is_handed_on_are_none() {
        let kept = |unasked: &str| Words { unasked: vec![unasked.to_owned()], ..words("x", "a", "1") };
        let found = words("x", "type(L['box'].held) is int", "1");
        assert!(kept("L['box'].held").difference(&found).is_none());
        assert!(kept("L['box'].hel").difference(&found).is_some() && kept("held").difference(&found).is_some());
        assert!(kept("L['box'].held.more").difference(&found).is_some());
    }

    #[test]
    fn an_object_of_another_class_is_the_same_object() {
        let kept = words("x", "___check_obj_id(G['a'], 16)  # <A object at 0x10>", "1");
        assert!(kept.difference(&words("x", "___check_obj_id(G['a'], 16)  # <B object at 0x10>", "1")).is_none());
        assert!(kept.difference(&words("x", "___check_obj_id(G['a'], 32)  # <A object at 0x20>", "1")).is_some());
    }

    #[test]
    fn what_a_guard_implies_is_no_difference() {
        let kept = words("x", "___all_different(L['a'], L['b'], L['c'])", "1");
        assert!(kept.difference(&words("x", "___all_different(L['c'], L['a'])", "1")).is_none());
        assert!(kept.difference(&words("x", "___all_different(L['c'], L['d'])", "1")).is_some());
        assert!(kept.difference(&words("x", "L['b'] is not ___nothing", "1")).is_none());
        assert!(kept.difference(&words("x", "'b' in L", "1")).is_none());
        assert!(kept.difference(&words("x", "'b' not in L", "1")).is_some());
    }

    #[test]
    fn guards_name_the_first_place_of_an_object() {
        let places = vec![("L['b'].c".to_owned(), "L['a']".to_owned())];
        let known = KnownObjects { places, ..KnownObjects::default() };
        assert_eq!(known.renamed("type(L['b'].c[0]) is type(L['b'].cd)".to_owned()), "type(L['a'][0]) is type(L['b'].cd)");
        let inputs = |name: &str, place: &str| vec![(name.to_owned(), place.to_owned())];
        let program = |name: &str, inputs| Words { inputs, ..words(&format!("mul_0 = {name}.mul(2)"), "a", "1") }.renamed(&known);
        let (kept, found) = (program("c", inputs("c", "L['b'].c")), program("a", inputs("a", "L['a']")));
        assert!(kept.difference(&found).is_none());
        assert!(kept.difference(&program("d", inputs("d", "L['d']"))).is_some());
        assert_eq!(known.in_place_of(&["L['b'].c".to_owned(), "L['b']".to_owned()]), ["L['a']", "L['b']"]);
    }

    #[test]
    fn numbers_are_words() {
        assert!(has_word("mul(x, 2)", "2") && !has_word("mul(x, 20)", "2") && !has_word("mul(x2)", "2"));
    }
}
