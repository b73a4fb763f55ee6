//! Coverage: decides whether one guard set passes all calls that another one passes.
//!
//! An entry for constant sizes is created first, and one for symbolic sizes later. If the later one would serve the calls of the earlier
//! one as well, both have the same purpose, and they count once among the entries of a code object. No call relies on this decision: if it
//! is uncertain, the answer is no.

use dynamlir_shapes::{Algebra, Dim, Dimension, Interval, LARGEST_SIZE, Predicate, Relation as Compared, Scope, Symbol, SymbolInfo};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Extent, GuardSet, Relation, SizeRelation, SourceId, StorageMember, TensorMatch,
    explain::{DescribedGuard, Texts},
};

impl GuardSet {
    /// Returns true if all calls that pass `other` would pass here, as far as this follows from the guards of both.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        // Sets with modes are not compared.
        self.modes.is_empty() && other.modes.is_empty() && Cover::new(&self.texts, &other.texts).holds()
    }
}

/// Maps each source of one set to the same source of the other, if that exists.
type Places = FxHashMap<SourceId, SourceId>;

struct Cover<'a> {
    wide: &'a Texts,
    narrow: &'a Texts,
    /// The narrower set's sources, by the wider set's.
    places: Places,
    said: FxHashMap<SourceId, Vec<&'a DescribedGuard>>,
    /// The sources that the narrower set implies to exist: the guarded ones, and those that lead to them.
    reached: FxHashSet<SourceId>,
    /// The pairs that it implies to be two objects, and those to be one: captures encounter objects in different orders.
    apart: FxHashSet<Pair>,
    same: FxHashSet<Pair>,
}

/// Two sources, the smaller number first.
type Pair = (SourceId, SourceId);

fn pair(a: SourceId, b: SourceId) -> Pair {
    (a.min(b), a.max(b))
}

/// Returns the pairs of elements of a list.
fn pairs(list: &[SourceId]) -> impl Iterator<Item = Pair> {
    list.iter().enumerate().flat_map(|(at, a)| list[at + 1..].iter().map(|b| pair(*a, *b)))
}

impl<'a> Cover<'a> {
    fn new(wide: &'a Texts, narrow: &'a Texts) -> Self {
        let mut places = Places::default();
        for (id, source) in wide.sources.numbered() {
            // A base precedes the sources built on it.
            let known = source.base().is_none_or(|base| places.contains_key(&base));
            if let Some(found) = known.then(|| narrow.sources.find(&source.moved(&places))).flatten() {
                places.insert(id, found);
            }
        }
        let mut said: FxHashMap<_, Vec<_>> = FxHashMap::default();
        let mut reached = FxHashSet::default();
        for (source, guard) in &narrow.guards {
            said.entry(*source).or_default().push(guard);
            let mut at = if matches!(guard, DescribedGuard::Absent | DescribedGuard::Unwatched) { None } else { Some(*source) };
            while let Some(id) = at.filter(|id| reached.insert(*id)) {
                at = narrow.sources.get(id).base();
            }
        }
        let (mut apart, mut same) = (FxHashSet::default(), FxHashSet::default());
        for relation in &narrow.relations {
            match relation {
                Relation::Same(a, b) => drop(same.insert(pair(*a, *b))),
                Relation::Distinct(list) => apart.extend(pairs(list)),
                Relation::Storage(_) | Relation::Compares(_) | Relation::Sizes(_) => {}
            }
        }
        Self { wide, narrow, places, said, reached, apart, same }
    }

    fn holds(&self) -> bool {
        let (wide, narrow) = (self.wide, self.narrow);
        wide.torch == narrow.torch
            && wide.handled.is_none_or(|handled| narrow.handled == Some(handled))
            && wide.registered.iter().all(|answer| narrow.registered.contains(answer))
            && wide.guards.iter().all(|(source, guard)| self.guard_follows(*source, guard))
            && wide.relations.iter().all(|relation| self.relation_follows(relation))
    }

    fn place(&self, source: SourceId) -> Option<SourceId> {
        self.places.get(&source).copied()
    }

    fn guard_follows(&self, source: SourceId, guard: &DescribedGuard) -> bool {
        let Some(place) = self.place(source) else { return false };
        if matches!(guard, DescribedGuard::Present) && self.reached.contains(&place) {
            return true;
        }
        self.said.get(&place).is_some_and(|known| known.iter().any(|known| follows(guard, known)))
    }

    fn relation_follows(&self, relation: &Relation) -> bool {
        let has = |moved: Option<Relation>| moved.is_some_and(|moved| self.narrow.relations.contains(&moved));
        match relation {
            Relation::Same(a, b) => self.place(*a).zip(self.place(*b)).is_some_and(|(a, b)| self.same.contains(&pair(a, b))),
            Relation::Distinct(list) => {
                let places: Option<Vec<_>> = list.iter().map(|source| self.place(*source)).collect();
                places.is_some_and(|places| pairs(&places).all(|pair| self.apart.contains(&pair)))
            }
            Relation::Storage(list) => {
                let member = |member: &StorageMember| Some(StorageMember { source: self.place(member.source)?, ..*member });
                has(list.iter().map(member).collect::<Option<_>>().map(Relation::Storage))
            }
            Relation::Sizes(sizes) => self.sizes_follow(sizes),
            // With other numbers, the computation is a different one.
            Relation::Compares(_) => false,
        }
    }

    /// Returns true if a size relation holds whenever the narrower set passes, with its numbers or expressions of its own symbols.
    fn sizes_follow(&self, sizes: &SizeRelation) -> bool {
        let own = self.narrow.relations.iter().find_map(|relation| match relation {
            Relation::Sizes(own) => Some(own),
            _ => None,
        });
        let scope = own.map(scope_of).unwrap_or_default();
        let mut values: FxHashMap<Symbol, Dim> = FxHashMap::default();
        for (source, extent, size) in &sizes.extents {
            let Some(found) = self.extent(own, *source, *extent) else { return false };
            let Some(symbol) = size.as_symbol().filter(|symbol| !values.contains_key(symbol)) else {
                if !Self::surely(&values, &scope, &Predicate::new(size.clone(), Compared::Eq, Dim::from(0)), Some(&found)) {
                    return false;
                }
                continue;
            };
            values.insert(symbol, found);
        }
        let ranges = sizes.ranges.iter().enumerate().flat_map(|(number, (min, max))| {
            let symbol = Dim::from(Symbol(number as u32));
            [Predicate::new(symbol.clone(), Compared::Ge, *min), Predicate::new(symbol, Compared::Le, *max)]
        });
        ranges.chain(sizes.assumed.iter().cloned()).all(|predicate| Self::surely(&values, &scope, &predicate, None))
    }

    /// Returns true if a predicate holds for all of the narrower set's sizes. `right` replaces the predicate's right-hand side.
    fn surely(values: &FxHashMap<Symbol, Dim>, scope: &Scope, predicate: &Predicate, right: Option<&Dim>) -> bool {
        let mut substitution = Substitution { values };
        let left = predicate.left.fold(&mut substitution);
        let right = right.cloned().or_else(|| predicate.right.fold(&mut substitution));
        left.zip(right).is_some_and(|(left, right)| scope.decide(&Predicate::new(left, predicate.relation, right)) == Some(true))
    }

    /// Returns a size or stride of the narrower set.
    fn extent(&self, own: Option<&SizeRelation>, source: SourceId, extent: Extent) -> Option<Dim> {
        let place = self.place(source)?;
        if matches!(extent, Extent::Int | Extent::Negated) {
            return self.int(own, place, extent);
        }
        let tensor = self.said.get(&place)?.iter().find_map(|said| match said {
            DescribedGuard::Tensor(tensor) => Some(tensor),
            _ => None,
        })?;
        let number = match extent {
            Extent::Size(d) => *tensor.meta.sizes.get(d)?,
            Extent::Stride(d) => *tensor.meta.strides.get(d)?,
            Extent::Int | Extent::Negated => None,
        };
        number.map(Dim::from).or_else(|| varying(own, place, extent))
    }

    /// Returns an int of the narrower set, or its absolute value.
    fn int(&self, own: Option<&SizeRelation>, place: SourceId, extent: Extent) -> Option<Dim> {
        let number = self.said.get(&place)?.iter().find_map(|said| match said {
            DescribedGuard::Equals(constant) => constant.int(),
            _ => None,
        });
        match number {
            Some(number) => Some(if extent == Extent::Int { number } else { number.checked_neg()? }.into()),
            None => varying(own, place, extent),
        }
    }
}

/// Returns the symbolic value at a place.
fn varying(own: Option<&SizeRelation>, place: SourceId, extent: Extent) -> Option<Dim> {
    own?.extents.iter().find(|(at, of, _)| *at == place && *of == extent).map(|(.., size)| size.clone())
}

/// Returns true if one guard on a value follows from another.
fn follows(guard: &DescribedGuard, known: &DescribedGuard) -> bool {
    match (guard, known) {
        (DescribedGuard::Type(class, _), DescribedGuard::Type(other, _))
        | (DescribedGuard::Identity(class, _), DescribedGuard::Identity(other, _))
        | (DescribedGuard::Code(class, _), DescribedGuard::Code(other, _)) => class == other,
        (DescribedGuard::MadeOf(parts, _), DescribedGuard::MadeOf(other, _)) => parts == other,
        (DescribedGuard::Equals(constant), DescribedGuard::Equals(other)) => constant == other,
        (DescribedGuard::Type(class, _), DescribedGuard::Equals(constant)) => constant.class_address() == *class,
        (DescribedGuard::Tensor(tensor), DescribedGuard::Tensor(other)) => is_wider(tensor, other),
        (DescribedGuard::Absent, DescribedGuard::Absent) | (DescribedGuard::Unwatched, DescribedGuard::Unwatched) => true,
        (DescribedGuard::Length(length), DescribedGuard::Length(other)) => length == other,
        (DescribedGuard::DictKeys(keys), DescribedGuard::DictKeys(other)) => keys == other,
        (DescribedGuard::SetElements(elements), DescribedGuard::SetElements(other))
        | (DescribedGuard::SetOrder(elements), DescribedGuard::SetOrder(other)) => elements == other,
        (DescribedGuard::Compares(comparison), DescribedGuard::Compares(other)) => comparison == other,
        (DescribedGuard::Contents(number), DescribedGuard::Contents(other)) => number == other,
        _ => false,
    }
}

fn is_wider(tensor: &TensorMatch, other: &TensorMatch) -> bool {
    tensor.class.address() == other.class.address()
        && tensor.meta.difference(&other.meta).is_none()
        && (other.no_dynamic_indices || !tensor.no_dynamic_indices)
}

/// Returns what a relation implies about its symbols.
fn scope_of(sizes: &SizeRelation) -> Scope {
    let mut scope = Scope::new();
    for (number, (min, max)) in sizes.ranges.iter().enumerate() {
        let range = Interval::new(*min, (*max).min(LARGEST_SIZE));
        scope.declare(Symbol(number as u32), SymbolInfo { range, hint: None, divisor: 1 });
    }
    for predicate in &sizes.assumed {
        // A predicate that the scope cannot use remains unknown.
        let _ = scope.assume(predicate);
    }
    scope
}

/// Substitutes other sizes for symbols; gives None if one has no substitute, or if numbers get too large.
struct Substitution<'a> {
    values: &'a FxHashMap<Symbol, Dim>,
}

impl Algebra for Substitution<'_> {
    type Value = Option<Dim>;

    fn number(&mut self, value: i64) -> Option<Dim> {
        Some(value.into())
    }
    fn symbol(&mut self, symbol: Symbol) -> Option<Dim> {
        self.values.get(&symbol).cloned()
    }
    fn add(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.add(&b?).ok()
    }
    fn mul(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.mul(&b?).ok()
    }
    fn floordiv(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.floordiv(&b?).ok()
    }
    fn modulo(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.modulo(&b?).ok()
    }
    fn min(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.min(&b?).ok()
    }
    fn max(&mut self, a: Option<Dim>, b: Option<Dim>) -> Option<Dim> {
        a?.max(&b?).ok()
    }
}
