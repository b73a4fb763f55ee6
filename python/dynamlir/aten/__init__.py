"""Knowledge about torch's operators that their schemas do not state, and what follows from it.

- `table`: one row per operator, with the facts as columns. Every operator that the package treats specially is named
  there, or in `composites`.
- `schema`: a registered schema combined with the table's row: argument lists, writes, functional variants.
- `custom`: functional variants for operators that users define.
- `layouts`: strides as eager's kernels give them.
- `composites`: functions of torch that take another path on fakes than on tensors.
- `decompositions`: torch's own decompositions of operations that the compiler does not lower.
"""
