//! What a path needs: each step reads storage of what it starts from, so a guard has to say what that is; and what a lookup by a name
//! has found, or that it has found nothing, has decided something.

use rustc_hash::FxHashSet;

use super::{Check, Facet, Open, says};
use crate::{Source, SourceId};

/// What a step takes for granted of the place that it starts from.
fn needed(step: &Source) -> Option<(SourceId, Facet)> {
    match step {
        // Of what class it is decides nothing where only which dict it is counts; who looks into it says so.
        Source::GetAttr(_, name) if &**name == "__dict__" => None,
        Source::Attr(base, _)
        | Source::Slot(base, _)
        | Source::GetAttr(base, _)
        | Source::Item(base, _)
        | Source::Index(base, _)
        | Source::DictKey(base, _)
        | Source::DictValue(base, _)
        | Source::Member(base, ..)
        | Source::MethodFunction(base)
        | Source::MethodSelf(base)
        | Source::Referent(base)
        | Source::Viewed(base)
        | Source::ContextVar(base)
        | Source::ContextValue(base) => Some((*base, Facet::Class)),
        Source::TypeAttr(base, _)
        | Source::Mro(base)
        | Source::Default(base, _)
        | Source::KwDefault(base, _)
        | Source::Defaults(base)
        | Source::KwDefaults(base)
        | Source::Closure { base, .. }
        | Source::ClosureCell(base, _)
        | Source::Code(base)
        | Source::Globals(base)
        | Source::GlobalOf(base, _)
        | Source::BuiltinOf(base, _)
        | Source::Answer(base, _)
        | Source::Remembers(base, _)
        | Source::Remembered(base, _) => Some((*base, Facet::Itself)),
        // A variable's cell is one whatever it holds.
        Source::Type(_)
        | Source::Cell(_)
        | Source::Local { .. }
        | Source::Global(_)
        | Source::Builtin(_)
        | Source::Function
        | Source::Free { .. }
        | Source::Held { .. }
        | Source::Computed(_) => None,
    }
}

/// Returns true of a lookup by a name: that it was made says that what it found counts.
fn looks_up(step: &Source) -> bool {
    matches!(
        step,
        Source::Global(_)
            | Source::Builtin(_)
            | Source::GlobalOf(..)
            | Source::BuiltinOf(..)
            | Source::TypeAttr(..)
            | Source::Attr(..)
            | Source::Slot(..)
            | Source::Member(..)
            | Source::Item(..)
    )
}

impl Check<'_> {
    /// Adds what the paths need that the guards do not say.
    pub(super) fn check_paths(&mut self, open: &mut Vec<Open>) {
        let count = self.state.sources.len();
        // What is used of each place: that it is there, that it is looked at.
        let (mut there, mut used) = (vec![false; count], vec![false; count]);
        let unasked: FxHashSet<_> = self.state.demands.iter().filter(|(_, facet)| *facet == Facet::Nothing).map(|(id, _)| *id).collect();
        for (id, step) in self.state.sources.numbered() {
            let said = self.covered[id.index()].says;
            there[id.index()] = said & !(says::ABSENT | says::UNWATCHED) != 0;
            used[id.index()] = said != 0 || looks_up(step) || matches!(step, Source::Defaults(_));
        }
        for id in self.state.collected.iter().chain(&self.state.written).chain(self.state.demands.iter().map(|(id, _)| id)) {
            used[id.index()] = true;
        }
        for (id, step) in self.state.sources.numbered().rev() {
            let Some(base) = step.base() else { continue };
            there[base.index()] |= there[id.index()];
            used[base.index()] |= used[id.index()];
        }
        for (id, step) in self.state.sources.numbered() {
            if let Source::Computed(computed) = step {
                // What is computed again is, of what is of these types.
                let reached = computed.reached().map(|(source, _)| source).filter(|source| !self.says(*source, Facet::Class));
                open.extend(reached.map(|place| Open { place, facet: Facet::Class, demand: None }));
            }
            if !used[id.index()] {
                continue;
            }
            if looks_up(step) && !self.is_found(id, step, there[id.index()]) && !unasked.contains(&id) {
                open.push(Open { place: id, facet: Facet::Found, demand: None });
            }
            if !self.is_whole(id, step) && !unasked.contains(&id) {
                open.push(Open { place: id, facet: Facet::Items, demand: None });
            }
            if let Some((base, facet)) = needed(step)
                && !self.says(base, facet)
            {
                open.push(Open { place: base, facet, demand: None });
            }
            if let Some(hidden) = self.hidden(step)
                && self.covered[hidden.index()].says & says::ABSENT == 0
            {
                open.push(Open { place: hidden, facet: Facet::Found, demand: None });
            }
        }
    }

    /// Returns true if guards say what a lookup finds.
    fn is_found(&self, id: SourceId, step: &Source, there: bool) -> bool {
        let said = self.covered[id.index()].says;
        let base = |base: &SourceId, wanted: u16| self.covered[base.index()].says & wanted != 0;
        let is_fixed = match step {
            // Nobody can change what classes of C's hold.
            Source::TypeAttr(class, _) => {
                base(class, says::FIXED_CLASS) || matches!(self.state.sources.get(*class), Source::Type(of) if base(of, says::FIXED))
            }
            Source::Attr(of, _) => base(of, says::BARE),
            Source::Item(of, _) => base(of, says::KEYED),
            _ => false,
        };
        // What a class holds may be a descriptor: what is beneath it does not say which.
        let strongly = says::EXACT | says::PINNED | says::CODE | says::UNBOUND;
        let found = if matches!(step, Source::TypeAttr(..)) { said & strongly != 0 } else { there || said & !says::UNWATCHED != 0 };
        found || is_fixed || self.is_constant(id)
    }

    /// Returns true unless this is something of which the whole was looked at, and guards do not say all of it: the classes along which a
    /// class looks up, the defaults of a function.
    fn is_whole(&self, id: SourceId, step: &Source) -> bool {
        let at = self.covered[id.index()];
        match step {
            Source::Defaults(_) => at.says & (says::EXACT | says::COUNTED) != 0,
            Source::Mro(_) => {
                let pinned = |item: &SourceId| self.covered[item.index()].says & says::PINNED != 0;
                // The first is the class itself.
                at.says & says::COUNTED != 0
                    && (1..at.length).all(|item| self.state.sources.find(&Source::Index(id, item)).is_some_and(|item| pinned(&item)))
            }
            _ => true,
        }
    }

    /// The global that would hide a builtin.
    fn hidden(&self, step: &Source) -> Option<SourceId> {
        let global = match step {
            Source::Builtin(name) => Source::Global(name.clone()),
            Source::BuiltinOf(function, name) => Source::GlobalOf(*function, name.clone()),
            _ => return None,
        };
        self.state.sources.find(&global)
    }

    /// Returns true if guards say what a step needs of the place that it starts from.
    pub(super) fn says(&self, id: SourceId, facet: Facet) -> bool {
        let said = self.covered[id.index()].says;
        match facet {
            _ if matches!(self.state.sources.get(id), Source::Computed(_)) => true,
            Facet::Itself => {
                said & (says::PINNED | says::CODE) != 0
                    || said & says::EXACT != 0 && said & says::ABSENT == 0
                    || match self.state.sources.get(id) {
                        Source::Held { .. } | Source::Function => true,
                        Source::Type(of) | Source::GetAttr(of, _) => self.says(*of, Facet::Class),
                        Source::MethodFunction(of) | Source::MethodSelf(of) => self.says(*of, Facet::Itself),
                        Source::Index(of, _) => self.covered[of.index()].says & says::PINNED != 0,
                        _ => self.is_constant(id),
                    }
            }
            _ => {
                said & (says::TYPED | says::PINNED | says::CODE | says::CONSTANT) != 0
                    || said & says::EXACT != 0 && said & says::ABSENT == 0
                    || matches!(self.state.sources.get(id), Source::Mro(_) | Source::Globals(_) | Source::ClosureCell(..) | Source::Code(_))
                    || self.says(id, Facet::Itself)
            }
        }
    }
}
