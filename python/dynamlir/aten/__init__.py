"""Everything that is about torch's operators: what each one does that its schema does not say, and what follows.

- `table`: one row per operator, with the facts as columns. Every operator that the package treats in its own manner
  is named there, or in `composites`.
- `schema`: what a registered schema says, together with the table's row: argument lists, writes, functional variants.
- `custom`: functional variants for operators that users define.
- `layouts`: strides as eager's kernels give them.
- `composites`: functions of torch's that take another path on fakes than on tensors.
- `decompositions`: torch's own decompositions of what the compiler does not lower.
"""
