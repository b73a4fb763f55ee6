//! The places where derived functions find the values of symbols.
//!
//! A backward entry receives saved values and tangents. A symbol is a size of one of these, if possible:
//!
//! ```mlir
//! func.func @main_vjp(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %dy: tensor<f32> {dynamo.tangent = 0}) -> …
//!     attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, …>], …}
//! ```
//! Otherwise the forward saves a tensor without elements of these sizes, `tensor<?x0xi8, #dynamo.sizes<s0, 0>>`: only tensors can be saved
//! for a call, and this one takes no memory. (An input of that size could be saved, but then writing to it before backward would raise an
//! error that eager does not raise.)

use dynamlir_dialect::{
    ir::{
        Ctx, Op, Type,
        sizes::{SizeSymbol, SymbolSite, assumed, set_assumed},
    },
    ops,
};
use dynamlir_shapes::Dim;

/// Finds the symbols among the sizes of arguments with these positions and types. Returns those found, in order, and those missing.
pub fn found(symbols: &[SizeSymbol], arguments: impl Iterator<Item = (usize, Type)>) -> (Vec<SizeSymbol>, Vec<SizeSymbol>) {
    let open: Vec<(usize, Vec<Dim>)> = arguments.filter(|(_, ty)| ty.is_open()).filter_map(|(at, ty)| Some((at, ty.sizes()?))).collect();
    let place = |symbol: &SizeSymbol| {
        open.iter().find_map(|(argument, sizes)| {
            let dim = sizes.iter().position(|size| size.as_symbol() == Some(symbol.symbol))?;
            Some(SymbolSite::Size { argument: *argument, dim })
        })
    };
    let (mut placed, mut missing) = (Vec::new(), Vec::new());
    for symbol in symbols {
        match place(symbol) {
            Some(place) => placed.push(SizeSymbol { place: Some(place), ..*symbol }),
            None => missing.push(*symbol),
        }
    }
    (placed, missing)
}

/// The type of a tensor without elements that has these symbols as sizes.
pub fn without_elements(ctx: Ctx, symbols: &[SizeSymbol]) -> Type {
    let sizes: Vec<Dim> = symbols.iter().map(|symbol| Dim::from(symbol.symbol)).chain([Dim::from(0)]).collect();
    Type::tensor_of(&sizes, Type::int(ctx, 8))
}

/// Copies the assumed facts about symbols from one function to another with the same symbols.
pub fn hand_on_assumed(from: Op, to: Op) {
    match assumed(from) {
        Ok(predicates) => set_assumed(to, &predicates),
        // The error is reported by the next reader.
        Err(_) => _ = ops::ASSUMED.of(from).map(|text| ops::ASSUMED.set(to, &text)),
    }
}
