//! The requirements of paths. Each step reads storage of its base, so a guard must establish what the base is. And a lookup by name has
//! decided something by what it found, or by finding nothing.

use rustc_hash::FxHashSet;

use super::{Facet, LedgerProof, Open, says};
use crate::{Source, SourceId};

/// Returns the fact about its base that a step relies on.
fn needed(step: &Source) -> Option<(SourceId, Facet)> {
    match step {
        // If only the identity of the dict matters, the class decides nothing; a step that looks into the dict has its own requirement.
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
        // A variable's cell is always a cell, regardless of its contents.
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

/// Returns true for a lookup by name: its result matters merely because the lookup was made.
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

impl LedgerProof<'_> {
    /// Adds the requirements of paths that the guards do not establish.
    pub(super) fn check_paths(&mut self, open: &mut Vec<Open>) {
        let count = self.state.sources.len();
        // Two facts for each place: it is present, and it is used.
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
                // A recomputed number is established if its operands have these types.
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

    /// Returns true if guards establish the result of a lookup.
    fn is_found(&self, id: SourceId, step: &Source, there: bool) -> bool {
        let said = self.covered[id.index()].says;
        let base = |base: &SourceId, wanted: u16| self.covered[base.index()].says & wanted != 0;
        let is_fixed = match step {
            // The attributes of C classes cannot be changed.
            Source::TypeAttr(class, _) => {
                base(class, says::FIXED_CLASS) || matches!(self.state.sources.get(*class), Source::Type(of) if base(of, says::FIXED))
            }
            Source::Attr(of, _) => base(of, says::BARE),
            Source::Item(of, _) => base(of, says::KEYED),
            _ => false,
        };
        // An attribute of a class may be a descriptor; guards on places below it do not say which one.
        let strongly = says::EXACT | says::PINNED | says::CODE | says::UNBOUND;
        let found = if matches!(step, Source::TypeAttr(..)) { said & strongly != 0 } else { there || said & !says::UNWATCHED != 0 };
        found || is_fixed || self.is_constant(id)
    }

    /// Returns true unless the whole of this object was used and guards do not establish all of it: the classes along which a class looks
    /// up, or the defaults of a function.
    fn is_whole(&self, id: SourceId, step: &Source) -> bool {
        let at = self.covered[id.index()];
        match step {
            Source::Defaults(_) => at.says & (says::EXACT | says::COUNTED) != 0,
            Source::Mro(_) => {
                let pinned = |item: &SourceId| self.covered[item.index()].says & says::PINNED != 0;
                // The first one is the class itself.
                at.says & says::COUNTED != 0
                    && (1..at.length).all(|item| self.state.sources.find(&Source::Index(id, item)).is_some_and(|item| pinned(&item)))
            }
            _ => true,
        }
    }

    /// Returns the global that would hide a builtin.
    fn hidden(&self, step: &Source) -> Option<SourceId> {
        let global = match step {
            Source::Builtin(name) => Source::Global(name.clone()),
            Source::BuiltinOf(function, name) => Source::GlobalOf(*function, name.clone()),
            _ => return None,
        };
        self.state.sources.find(&global)
    }

    /// Returns true if guards establish what a step needs of its base.
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
