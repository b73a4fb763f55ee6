//===- DynamoOps.td - The ATen op and the planned level ---*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_OPS
#define DYNAMO_OPS

include "dynamo/DynamoPrims.td"
include "mlir/IR/SymbolInterfaces.td"

//===----------------------------------------------------------------------===//
// The open set
//===----------------------------------------------------------------------===//

def Dynamo_AnyTensor : AnyTypeOf<[Dynamo_MutableTensorType, AnyRankedTensor]>;

def Dynamo_AtenOp : Dynamo_Op<"aten"> {
  let summary = "a call of one ATen operator";
  let description = [{
    Represents any operator: `schema` names the operator and overload, `args`
    holds all its arguments in schema order (`#dynamo.operand<i>` for operand
    i, `unit` for None, arrays for lists). The other attributes hold what
    passes would otherwise have to ask torch:

    * `aliases`: per result, the operand whose storage it shares, or -1;
    * `mutates`: the operands that the call writes to;
    * `functional`: the schema of the variant that returns the values which
      this one writes;
    * `decomposition`: a function with torch's own decomposition of the op;
    * `vjp`: a function with its derivative. It takes the operands, the results
      and the results' tangents (`dynamo.tangent = result`), and returns the
      gradients of operands (`dynamo.gradient = operand`);
    * `operand_strides`, `result_strides`: the layouts in eager, once the
      values are builtin tensors;
    * a body of primitives, at stage 02: the code to run instead of the call.
      It uses the operands, or values that they were computed from, and yields
      the results. `dynamo-select` chooses between the call and the code.

    ```mlir
    %2 = dynamo.aten "aten.add.Tensor"(%0, %1) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
           : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = dynamo.aten "aten.relu_.default"(%0) args [#dynamo.operand<0>]
           {aliases = array<i64: 0>, mutates = array<i64: 0>, functional = "aten.relu.default"}
           : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
    %4 = dynamo.aten "aten.mm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] code {
      %5 = dynamo.matmul %x, %w batch 0 : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
      dynamo.yield %5 : tensor<8x4xf32>
    } : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$schema, Variadic<Dynamo_AnyTensor>:$inputs, ArrayAttr:$args,
      OptionalAttr<DenseI64ArrayAttr>:$aliases, OptionalAttr<DenseI64ArrayAttr>:$mutates,
      OptionalAttr<StrAttr>:$functional, OptionalAttr<FlatSymbolRefAttr>:$decomposition,
      OptionalAttr<FlatSymbolRefAttr>:$vjp,
      OptionalAttr<ArrayAttr>:$operand_strides, OptionalAttr<ArrayAttr>:$result_strides,
      UnitAttr:$grad_enabled);
  let results = (outs Variadic<Dynamo_AnyTensor>:$outputs);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = "$schema `(` $inputs `)` `args` $args (`code` $bodies^)? attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

def Dynamo_YieldOp : Dynamo_Op<"yield", [Pure, Terminator, HasParent<"AtenOp">]> {
  let summary = "the results of the code of an ATen operator";
  let description = [{
    ```mlir
    dynamo.yield %r : tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Gradients that do not follow the values (stage 01)
//===----------------------------------------------------------------------===//

def Dynamo_DetachOp : Dynamo_Op<"detach", [Pure, SameOperandsAndResultType]> {
  let summary = "the same value, without a gradient";
  let description = [{
    The result of `detach()`, or of a view with grad mode off: no gradient passes through it. `dynamo-decompose` replaces it by its operand.

    ```mlir
    %d = dynamo.detach %x : tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def Dynamo_HistoryOp : Dynamo_Op<"history", [Pure, SameOperandsAndResultType]> {
  let summary = "the value of one tensor with the gradient of another";
  let description = [{
    A write with grad mode off changes the value of a tensor, but not its history:

    ```python
    y = x * 2
    with torch.no_grad():
        y.mul_(3)  # the gradient of x is still 2
    ```

    `old` is the tensor's value before the write, and `value` its value after it. The gradient of the result goes to `old`, and none
    to `value`. `dynamo-decompose` replaces the op by `value`.

    ```mlir
    %now = dynamo.history %value of %old : tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value, AnyRankedTensor:$old);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value `of` $old attr-dict `:` type($result)";
}

def Dynamo_OverwriteOp : Dynamo_Op<"overwrite", [Pure, SameOperandsAndResultType]> {
  let summary = "the value of one tensor, with a gradient of zeros for another";
  let description = [{
    In eager, a tensor has a gradient even if a write replaces all of its elements:

    ```python
    y = x * 2
    y.copy_(z)  # the gradient of x is zeros
    ```

    `old` is the tensor's value before the write, and `value` its value after it. The gradient of the result goes to `value`; `old` gets
    zeros. `dynamo-decompose` replaces the op by `value`.

    ```mlir
    %now = dynamo.overwrite %value of %old : tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value, AnyRankedTensor:$old);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value `of` $old attr-dict `:` type($result)";
}

def Dynamo_CheckRangeOp : Dynamo_Op<"check_range"> {
  let summary = "fails unless low <= x < high for every element";
  let description = [{
    On tensors it returns its operand, so that the ops that rely on the check
    come after it. It fails before any of the caller's tensors is written: the
    call then runs in eager, which raises its own error. Both bounds may be
    expressions.

    ```mlir
    %i = dynamo.check_range %index in [0, 10) "index out of range" : (tensor<4xi64>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Dynamo_IndexTensor, AnyStridedMemRef]>:$operand, Dynamo_Size:$low, Dynamo_Size:$high, StrAttr:$message);
  let results = (outs Variadic<Dynamo_IndexTensor>:$checked);
  let assemblyFormat = "$operand `in` `[` custom<Size>($low) `,` custom<Size>($high) `)` $message attr-dict `:` functional-type($operand, $checked)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The graph after outlining and planning
//===----------------------------------------------------------------------===//

def Dynamo_Launchable : AnyTypeOf<[AnyRankedTensor, AnyStridedMemRef]>;

def Dynamo_LaunchOp : Dynamo_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel function";
  let description = [{
    On tensors it returns the kernel's results. On memrefs it has no results:
    the kernel writes its last operands. The two forms do not mix.

    On memrefs a kernel gets the address of each operand's element 0 and
    nothing else. An operand must therefore have the shape, strides and element
    type that the kernel expects; a bool or `ui8` operand is `i8` in the
    kernel, and an operand may have any offset. The kernel's argument types
    give these layouts, or `dynamo.signature = (inputs) -> (outputs)` once the
    arguments are bare pointers.

    If sizes are expressions, a kernel gets those that it needs as `index`
    arguments after its memrefs, in the order of `sizes`.

    ```mlir
    %r = dynamo.launch @kernels::@add_0(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    dynamo.launch @kernels::@add_0(%x, %y, %out) : (memref<4xf32>, memref<4xf32>, memref<4xf32>) -> ()
    dynamo.launch @kernels::@exp_0(%x, %out) sizes [s0] : (memref<?x4xf32>, memref<?x4xf32>) -> ()
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<Dynamo_Launchable>:$inputs, OptionalAttr<Dynamo_SizeArray>:$sizes);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$kernel `(` $inputs `)` (`sizes` custom<SizeArray>($sizes)^)? attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

def Dynamo_WorkspaceOp : Dynamo_Op<"workspace", [Pure]> {
  let summary = "the graph's temporary memory, 64-byte aligned";
  let description = [{
    One piece of memory for all buffers that do not outlive the call. Its type
    gives its size, unless the size is an expression.

    ```mlir
    %ws = dynamo.workspace : memref<1024xi8>
    %ws = dynamo.workspace bytes s0*32 : memref<?xi8>
    ```
  }];
  let arguments = (ins OptionalAttr<Dynamo_Size>:$bytes);
  let results = (outs MemRefRankOf<[I8], [1]>:$result);
  let assemblyFormat = "(`bytes` custom<Size>($bytes)^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dynamo_BufferOp : Dynamo_Op<"buffer", [Pure]> {
  let summary = "a buffer at a byte offset of the workspace";
  let description = [{
    Buffers whose values live at different times may overlap. A buffer of
    static shape lies inside the workspace, aligned to its elements. Each `?`
    of the type is an expression in `sizes` or `strides`; row-major strides may
    be omitted.

    ```mlir
    %b = dynamo.buffer %ws[64] : memref<1024xi8> -> memref<4x8xf32>
    %c = dynamo.buffer %ws[s0*32] sizes [s0, 8] : memref<?xi8> -> memref<?x8xf32>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I8], [1]>:$workspace, Dynamo_Size:$byte_offset, OptionalAttr<Dynamo_SizeArray>:$sizes,
                       OptionalAttr<Dynamo_SizeArray>:$strides);
  let results = (outs AnyStridedMemRef:$result);
  let assemblyFormat = "$workspace `[` custom<Size>($byte_offset) `]` (`sizes` custom<SizeArray>($sizes)^)? (`strides` custom<SizeArray>($strides)^)? attr-dict `:` type($workspace) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_OutputBufferOp : Dynamo_Op<"output_buffer"> {
  let summary = "the memory of a new torch tensor that the graph returns";
  let description = [{
    `sizes` and `strides` are as in `dynamo.buffer`.

    ```mlir
    %o = dynamo.output_buffer : memref<4x8xf32>
    %p = dynamo.output_buffer sizes [s0, s1] strides [1, s0] : memref<?x?xf32, strided<[1, ?]>>
    ```
  }];
  let arguments = (ins OptionalAttr<Dynamo_SizeArray>:$sizes, OptionalAttr<Dynamo_SizeArray>:$strides);
  let results = (outs AnyStridedMemRef:$result);
  let assemblyFormat = "(`sizes` custom<SizeArray>($sizes)^)? (`strides` custom<SizeArray>($strides)^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dynamo_ViewOp : Dynamo_Op<"view", [Pure]> {
  let summary = "the memory of a buffer with another layout";
  let description = [{
    Like `memref.reinterpret_cast`, but the numbers may be expressions: another
    window on the same memory. Its offset counts from the start of that memory.
    If the element types differ, offset and strides count elements of the
    result.

    ```mlir
    %v = dynamo.view %b[s0*4 - 4] sizes [1, 4] strides [4, 1] : memref<?x4xf32> -> memref<1x4xf32, strided<[4, 1], offset: ?>>
    ```
  }];
  let arguments = (ins AnyStridedMemRef:$source, Dynamo_Size:$offset, Dynamo_SizeArray:$sizes, Dynamo_SizeArray:$strides);
  let results = (outs AnyStridedMemRef:$result);
  let assemblyFormat = "$source `[` custom<Size>($offset) `]` `sizes` custom<SizeArray>($sizes) `strides` custom<SizeArray>($strides) attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_RouteAttr : Dynamo_Enum<"Route", "the way to call an operator of torch", "route", [
    I32EnumAttrCase<"c_shim", 0>, I32EnumAttrCase<"dispatcher", 1>, I32EnumAttrCase<"python", 2>]>;

def Dynamo_ExternOp : Dynamo_Op<"extern", [AttrSizedOperandSegments]> {
  let summary = "calls an ATen operator of libtorch";
  let description = [{
    With `outs` the operator writes its results there and the op has none;
    otherwise the operator allocates its results. The routes, from cheap to
    expensive: `c_shim`, the operator's own C function; `dispatcher`, the C
    dispatcher; `python`, a Python call. `args` is as in `dynamo.aten`. If sizes
    or strides of results are expressions, `sizes` and `strides` list those of
    each result.

    ```mlir
    dynamo.extern c_shim "aten.mm.default"(%a, %b) outs(%o) args [#dynamo.operand<0>, #dynamo.operand<1>]
      : (memref<2x3xf32>, memref<3x4xf32>) -> (), (memref<2x4xf32>)
    ```
  }];
  let arguments = (ins Dynamo_RouteAttr:$route, StrAttr:$schema, Variadic<AnyStridedMemRef>:$inputs,
      Variadic<AnyStridedMemRef>:$outs, ArrayAttr:$args, OptionalAttr<ArrayAttr>:$sizes, OptionalAttr<ArrayAttr>:$strides);
  let results = (outs Variadic<AnyStridedMemRef>:$outputs);
  let assemblyFormat = "`` $route $schema `(` $inputs `)` (`outs` `(` $outs^ `)`)? `args` $args attr-dict `:` "
                       "functional-type($inputs, $outputs) (`,` `(` type($outs)^ `)`)?";
  let hasVerifier = 1;
}

def Dynamo_CommitOp : Dynamo_Op<"commit"> {
  let summary = "after this op the graph writes the caller's tensors";
  let description = [{ An error before it changes nothing of the caller's; no op after it can fail. }];
  let assemblyFormat = "attr-dict";
}

#endif // DYNAMO_OPS
