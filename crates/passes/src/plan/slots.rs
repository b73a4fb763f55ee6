//! Places buffers in the workspace when sizes may be expressions.
//!
//! Buffers of static size are placed as usual ([`super::memory`]). They are followed by consecutive *slots*: buffers with disjoint
//! lifetimes share one if it is known which of them is larger. Offsets are sums of the preceding slots, so that nothing has to be placed at
//! call time.
//!
//! ```mlir
//! %a = dynamo.buffer %ws[0] : memref<?xi8> -> memref<16xf32>
//! %b = dynamo.buffer %ws[64] sizes [s0, 16] strides [16, 1] : memref<?xi8> -> memref<?x16xf32>
//! %c = dynamo.buffer %ws[s0*64 + 64] sizes [s0, 32] strides [32, 1] : memref<?xi8> -> memref<?x32xf32>
//! ```

use dynamlir_shapes::{Dim, Dimension, Relation, Result, Scope};

use super::memory::{self, ALIGNMENT, Need};

/// Memory for buffers with disjoint lifetimes.
struct Slot {
    bytes: Dim,
    members: Vec<usize>,
}

/// Byte offsets for the needs, and the size of the workspace.
pub fn place(needs: &[Need<Dim>], scope: &Scope) -> Result<(Vec<Dim>, Dim)> {
    let number = |need: &Need<Dim>| Some(Need { bytes: need.bytes.known()?, first: need.first, last: need.last });
    let (known, open): (Vec<usize>, Vec<usize>) = (0..needs.len()).partition(|&i| number(&needs[i]).is_some());
    let numbers: Vec<Need> = known.iter().filter_map(|&i| number(&needs[i])).collect();
    let (placed, total) = memory::place(&numbers);
    let mut offsets = vec![Dim::from(0); needs.len()];
    for (&i, offset) in known.iter().zip(placed) {
        offsets[i] = offset.into();
    }
    let mut slots: Vec<Slot> = Vec::new();
    let mut order = open;
    order.sort_by_key(|&i| (needs[i].first, i));
    for i in order {
        add(&mut slots, i, needs, scope);
    }
    let mut end = Dim::from(total);
    for slot in slots {
        for i in slot.members {
            offsets[i] = end.clone();
        }
        end = end.add(&padded(&slot.bytes, scope)?)?;
    }
    Ok((offsets, end))
}

/// Puts a buffer into a slot that is free during its lifetime. In order of preference: one of its size, one that is known to be larger, one
/// that is known to be smaller and grows, a new one.
fn add(slots: &mut Vec<Slot>, i: usize, needs: &[Need<Dim>], scope: &Scope) {
    let need = &needs[i];
    let holds = |a: &Dim, b: &Dim| a.compare(Relation::Ge, b, scope).unwrap_or(false);
    let free = |slot: &&mut Slot| slot.members.iter().all(|&other| !needs[other].meets(need));
    let fits: [&dyn Fn(&Slot) -> bool; 3] =
        [&|slot| slot.bytes == need.bytes, &|slot| holds(&slot.bytes, &need.bytes), &|slot| holds(&need.bytes, &slot.bytes)];
    for fit in fits {
        if let Some(slot) = slots.iter_mut().filter(free).find(|slot| fit(slot)) {
            if !holds(&slot.bytes, &need.bytes) {
                slot.bytes = need.bytes.clone();
            }
            slot.members.push(i);
            return;
        }
    }
    slots.push(Slot { bytes: need.bytes.clone(), members: vec![i] });
}

/// Rounds up to a multiple of the alignment.
fn padded(bytes: &Dim, scope: &Scope) -> Result<Dim> {
    let alignment = Dim::from(ALIGNMENT);
    if bytes.modulo(&alignment)?.compare(Relation::Eq, &Dim::from(0), scope).unwrap_or(false) {
        return Ok(bytes.clone());
    }
    bytes.ceildiv(&alignment)?.mul(&alignment)
}

#[cfg(test)]
mod tests {
    use dynamlir_shapes::{Bindings, Symbol, SymbolInfo};

    use super::*;

    fn needs(list: &[(&str, usize, usize)]) -> Vec<Need<Dim>> {
        list.iter().map(|&(bytes, first, last)| Need { bytes: bytes.parse().expect("parses"), first, last }).collect()
    }

    fn scope() -> Scope {
        let mut scope = Scope::new();
        for symbol in 0..2 {
            scope.declare(Symbol(symbol), SymbolInfo { hint: Some(8), ..SymbolInfo::default() });
        }
        scope
    }

    fn placed(list: &[(&str, usize, usize)]) -> (Vec<String>, String) {
        let (offsets, total) = place(&needs(list), &scope()).expect("places");
        (offsets.iter().map(ToString::to_string).collect(), total.to_string())
    }

    #[test]
    fn numbers_come_first() {
        let (offsets, total) = placed(&[("s0*64", 0, 1), ("100", 0, 1), ("100", 2, 3)]);
        assert_eq!(offsets, ["128", "0", "0"]);
        assert_eq!(total, "s0*64 + 128");
    }

    #[test]
    fn what_never_meets_shares_a_slot() {
        let (offsets, total) = placed(&[("s0*64", 0, 1), ("s0*64", 1, 2), ("s0*64", 2, 3)]);
        assert_eq!((&offsets[0], &offsets[1], total.as_str()), (&offsets[2], &"s0*64".to_owned(), "s0*128"));
        // A larger buffer enlarges its slot; it is not known which of s0 and s1 is larger.
        assert_eq!(placed(&[("s0*64", 0, 1), ("s0*128", 2, 3)]).1, "s0*128");
        assert_eq!(placed(&[("s0*64", 0, 1), ("s1*64", 2, 3)]).0, ["0", "s0*64"]);
    }

    #[test]
    fn slots_begin_at_lines_and_never_overlap() {
        let all = [("s0*4", 0, 2), ("s1*12 + 1", 1, 4), ("s0*4", 3, 5), ("s0*s1", 0, 5), ("7", 2, 2)];
        let (offsets, total) = place(&needs(&all), &scope()).expect("places");
        for values in [(2, 3), (17, 2), (64, 1000), (5, 7)] {
            let bindings: Bindings = [(Symbol(0), values.0), (Symbol(1), values.1)].into_iter().collect();
            let at = |dim: &Dim| dim.at(&bindings).expect("a number");
            let spans: Vec<(i64, i64)> =
                needs(&all).iter().zip(&offsets).map(|(need, offset)| (at(offset), at(offset) + at(&need.bytes))).collect();
            for (i, need) in needs(&all).iter().enumerate() {
                assert!(spans[i].0 % ALIGNMENT == 0 && spans[i].1 <= at(&total));
                let apart = |other: &(i64, i64)| other.1 <= spans[i].0 || spans[i].1 <= other.0;
                assert!(needs(&all).iter().zip(&spans).skip(i + 1).all(|(other, span)| !need.meets(other) || apart(span)));
            }
        }
    }
}
