//! Indices in a reduction that is cut into pieces.
//!
//! `tile_reduction_using_forall` of LLVM 22 makes a `linalg.generic` of each piece whose `linalg.index` counts from the start of the piece.
//! Values that a body computes from its index (the position of a maximum, a triangle, `arange`) need the index in the whole reduction, so
//! the start of the piece, which is the loop's own variable, is added. The operations are marked before the schedule is applied, and every
//! one of them must be found again afterwards.
//!
//! ```mlir
//! %p = linalg.index 0 {dynamo.piece = 1 : i64}                       // before: the second loop of the pieces is over dimension 0
//! %i = linalg.index 0   %p = arith.addi %i, %piece#1 : index          // after
//! ```

use dynamlir_dialect::{
    ir::{Builder, Op},
    ops,
    upstream::{linalg, scf},
};

use ops::PIECE;

/// Marks the operations that query their index along a dimension that is cut; returns their number.
pub(super) fn mark(function: Op, tiles: &[i64]) -> usize {
    let mut found = 0;
    function.walk(&mut |op| {
        let Some(dim) = linalg::index_dim(op) else { return };
        let dim = dim as usize;
        let reduces = op.parent().is_some_and(|generic| ops::PHASE.is_on(generic));
        if reduces && tiles.get(dim).is_some_and(|&tile| tile > 0) {
            let number = tiles[..dim].iter().filter(|&&tile| tile > 0).count();
            PIECE.set(op, number as i64);
            found += 1;
        }
    });
    found
}

/// Removes the marks.
pub(super) fn unmark(function: Op) {
    function.walk(&mut |op| {
        PIECE.remove(op);
    });
}

/// Adds the starts of the pieces. Returns false if the number of marks is not `positions`, or if one is not in a loop over pieces.
pub(super) fn shift(function: Op, positions: usize) -> bool {
    let mut marked = Vec::new();
    function.walk(&mut |op| marked.extend(PIECE.is_on(op).then_some(op)));
    marked.len() == positions && marked.into_iter().all(|op| shift_one(op).is_some())
}

fn shift_one(op: Op) -> Option<()> {
    let number = usize::try_from(PIECE.of(op)?).ok()?;
    let mut pieces = op.parent()?;
    while !pieces.is(scf::FORALL) {
        pieces = pieces.parent()?;
    }
    // The block arguments after the loop variables are the output tensors, which are not numbers.
    let beginning = pieces.body()?.args().get(number).copied().filter(|value| value.ty() == op.result(0).ty())?;
    PIECE.remove(op);
    let (builder, uses) = (Builder::before(op.next()?).with_loc(op.loc()), op.result(0).uses());
    let whole = builder.addi(op.result(0), beginning);
    for used in uses {
        used.op.set_operand(used.index, whole);
    }
    Some(())
}
