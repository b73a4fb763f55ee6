//===- DynamoBase.td - The dynamo dialect -----------------*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect itself and the constraints that the other files share.
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_BASE
#define DYNAMO_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Dynamo_Dialect : Dialect {
  let name = "dynamo";
  let summary = "PyTorch programs from ATen calls to planned kernel launches";
  let description = [{
    The dialect carries a captured PyTorch program through three levels:

    * the *ATen level*: `dynamo.aten` on `!dynamo.tensor` values, which are
      strided, may share storage and may be written to;
    * the *primitive level*: a closed set of value-semantics ops on builtin
      tensors, without promotion, broadcasting, mutation or aliasing;
    * the *planned level*: `dynamo.launch`, `dynamo.extern` and explicit
      buffers, which the runtime executes.

    A pointwise primitive takes operands of one type and names it once:

    ```mlir
    %sum = dynamo.add %a, %b : tensor<4xf32>
    %exp = dynamo.exp %sum : tensor<4xf32>
    ```

    Element types are those of torch: `f64`, `f32`, `bf16`, `f16`, `i64`,
    `i32`, `i16`, `i8` (int8), `ui8` (uint8) and `i1` (bool). Sizes may be
    unknown (`?`); a check that needs a size that is unknown is left out. Sizes
    may be expressions over symbols, `tensor<?x4xf32, #dynamo.sizes<s0, 4>>`,
    which `dynamo.symbols` of the function declares; then equalities must hold
    for all values of the symbols, and bounds must hold for some.
  }];
  let cppNamespace = "::dynamlir::dynamo";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  // What the dialect says on operations of others. `verifyOperationAttribute` and its like check it.
  let discardableAttrs = (ins
    // Of the module: what kernels are made for, where tensors live, what choices were made for problems, which problems there were,
    // whether random numbers are those that eager draws, how much of what could be given up is kept for backward.
    "::dynamlir::dynamo::TargetAttr":$target, "::mlir::StringAttr":$device,
    "::mlir::DictionaryAttr":$choices, "::mlir::ArrayAttr":$problems,
    "::mlir::UnitAttr":$eager_random, "::mlir::IntegerAttr":$memory_budget,
    // Of a graph function: what the user gets, of what it is a view, how often results were written, whether numbers are drawn.
    "::mlir::UnitAttr":$entry, "::mlir::ArrayAttr":$outputs, "::mlir::ArrayAttr":$bases,
    "::mlir::DenseI64ArrayAttr":$versions, "::mlir::UnitAttr":$random,
    // Which outputs require a gradient, which are views that were made with grad mode off or that are one of several views of an
    // operation, the function that computes gradients, and how many of the last outputs are kept for it.
    "::mlir::DenseI64ArrayAttr":$differentiable, "::mlir::DenseI64ArrayAttr":$without_grad, "::mlir::DenseI64ArrayAttr":$one_of_several,
    // For each output, the output that it is a view of where that is a view itself, or -1; the first output that was returned by the
    // same call of an operation of several views, or -1.
    "::mlir::DenseI64ArrayAttr":$made_from, "::mlir::DenseI64ArrayAttr":$made_beside,
    "::mlir::FlatSymbolRefAttr":$vjp, "::mlir::IntegerAttr":$saved,
    // How many of its operations that function computes again.
    "::mlir::IntegerAttr":$recomputed,
    // How often it is differentiated, and the arguments that its gradients are made of; of an argument of a function that computes
    // gradients, which argument or tangent of the other it was; of its results, the arguments that give them a history.
    "::mlir::IntegerAttr":$order, "::mlir::DenseI64ArrayAttr":$primals, "::mlir::IntegerAttr":$primal,
    "::mlir::DenseI64ArrayAttr":$sources,
    // Of an operator, which of the entry's random draws it is; of a call, or of an argument in its place, that it gives the keys of them
    // all; of a function, which of the values that it keeps these keys are.
    "::mlir::IntegerAttr":$draw, "::mlir::UnitAttr":$keys, "::mlir::IntegerAttr":$kept_keys,
    // Of a function: the last value that it keeps is kept for its sizes alone.
    "::mlir::UnitAttr":$kept_sizes,
    // Of any function: the symbols in its sizes.
    "::mlir::ArrayAttr":$symbols,
    // Of an entry: what holds of them in each call: s0 <= s1; s0*s1 mod 2 == 0.
    "::mlir::StringAttr":$assumed,
    // Of its arguments, beside their layouts: how often eager counts a write, whether a gradient is wanted.
    "::mlir::IntegerAttr":$version_bumps, "::mlir::UnitAttr":$requires_grad,
    // Of an argument, the result whose tangent it is; of a result, the argument whose gradient it is.
    "::mlir::IntegerAttr":$tangent, "::mlir::IntegerAttr":$gradient,
    // Where a graph is several nodes of autograd's graph. Of tangents and gradients: the node that they belong to. Of a gradient: the
    // result, or the output that is a view, whose gradient it is, and the results whose tangents reach it, where those are not all. Of a
    // result of a joint function: that nodes alone see it. Of an operation: for each result the output that it is, which is a view, or -1.
    "::mlir::IntegerAttr":$node, "::mlir::IntegerAttr":$gradient_of, "::mlir::IntegerAttr":$gradient_of_output,
    // Of a tangent: the arguments, results and outputs that its node leads to without giving a gradient of them (autograd visits what has
    // made them all the same).
    "::mlir::ArrayAttr":$leads_to,
    // Of a tangent, of a recorded derivative and of an operation: that eager keeps something for its node, which one walk uses up. Of an
    // operation: that its derivative runs, on zeros, where the gradients of its results are missing; that it is to be given the sum of all
    // that reaches it, as a node of its own.
    "::mlir::DenseI64ArrayAttr":$reached, "::mlir::UnitAttr":$once, "::mlir::UnitAttr":$hidden, "::mlir::DenseI64ArrayAttr":$shown,
    "::mlir::UnitAttr":$materialized, "::mlir::UnitAttr":$not_linear,
    // Of a graph function: the functions that compute the gradients of its nodes, in order, and the types of what nodes alone see; of
    // these functions: which of the kept values they take, and which of their arguments formulas read by way of views alone, which are
    // what eager keeps; of one that is differentiated several times: which node, each time.
    "::mlir::ArrayAttr":$vjps, "::mlir::ArrayAttr":$crossing, "::mlir::DenseI64ArrayAttr":$kept, "::mlir::DenseI64ArrayAttr":$by_views,
    "::mlir::DenseI64ArrayAttr":$path,
    // Of a function whose gradients are differentiated: which of the results of that node, by their places among them, are arguments
    // of these gradients.
    "::mlir::DenseI64ArrayAttr":$given,
    // Of a tangent: that eager's node of the result keeps the result itself, since its formula reads it.
    "::mlir::UnitAttr":$kept_by_eager,
    // Of its arguments and results (stages 00 to 04).
    "::mlir::StringAttr":$name, "::mlir::IntegerAttr":$storage, "::mlir::IntegerAttr":$mutates,
    "::mlir::DenseI64ArrayAttr":$strides, "::mlir::IntegerAttr":$offset,
    // Of arguments in memory (04), whose types say no expressions.
    "::mlir::DenseI64ArrayAttr":$sizes,
    // Of a kernel: what it iterates over (03), its arguments in memory (04), scratch memory among them, how products are
    // computed, why there is no schedule (06), an expression that is negative where its loops are too short for threads (06),
    // whether it goes through memory backwards (07).
    "::mlir::UnitAttr":$kernel, "::mlir::DenseI64ArrayAttr":$domain, "::mlir::DenseI64ArrayAttr":$reduced_dims,
    "::mlir::TypeAttr":$signature, "::mlir::UnitAttr":$scratch, "::mlir::DictionaryAttr":$matmul, "::mlir::StringAttr":$choice,
    "::mlir::StringAttr":$unscheduled, "::mlir::IntegerAttr":$parallel, "::mlir::UnitAttr":$backward,
    // Of operations up to 02: the checkpoint that they belong to, of which backward computes them again.
    "::mlir::IntegerAttr":$recompute,
    // Of an ATen operator with code (02): something point by point follows, that the code can take in.
    "::mlir::UnitAttr":$followed,
    // Of a sum of `f64` (02 to 07): its terms are `f32` and are widened since there may be many of them, so that some may be added in
    // `f32` first.
    "::mlir::UnitAttr":$long_sum,
    // Of operations in a kernel (05): the phase that they compute, fill the result of, or are the result of; along which
    // dimension a scan runs; how many batch dimensions a contraction has; which piece of a reduction is computed; for which
    // dimension a size of blocks is; whether a loop asks for what it reads next.
    "::mlir::IntegerAttr":$phase, "::mlir::IntegerAttr":$init, "::mlir::IntegerAttr":$out, "::mlir::IntegerAttr":$scan,
    "::mlir::IntegerAttr":$batch, "::mlir::IntegerAttr":$piece, "::mlir::IntegerAttr":$tile,
    "::mlir::UnitAttr":$prefetch,
    // Of a kernel on its way to a GPU: at what multiples its arguments lie, its threads, or why it has none; of the declaration
    // that is left of it: where its code is; of its code: how it is launched.
    "::mlir::SymbolRefAttr":$code, "::mlir::DenseI64ArrayAttr":$alignments, "::mlir::DictionaryAttr":$gpu, "::mlir::UnitAttr":$tf32,
    "::mlir::StringAttr":$no_gpu, "::mlir::DictionaryAttr":$launch, "::mlir::DictionaryAttr":$launches);
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  // Whether an expression was ever made in the context: where none was, nothing looks for symbols.
  let extraClassDeclaration = [{
    bool holdsExpressions() const { return expressions.load(::std::memory_order_relaxed); }
    void noteExpression() { expressions.store(true, ::std::memory_order_relaxed); }

  private:
    ::std::atomic<bool> expressions{false};

  public:
  }];
}

// The element types of torch that dynamlir compiles. `i8` is torch's int8,
// `ui8` its uint8, `i1` its bool.
def Dynamo_Float : AnyTypeOf<[F64, F32, BF16, F16], "floating point">;
def Dynamo_Int : AnyTypeOf<[I64, I32, I16, I8, UI8], "integer">;
def Dynamo_Bool : AnyTypeOf<[I1], "bool">;
def Dynamo_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I16, I8, UI8, I1],
                               "torch element type">;

def Dynamo_Tensor : RankedTensorOf<[Dynamo_Element]>;
def Dynamo_FloatTensor : RankedTensorOf<[F64, F32, BF16, F16]>;
def Dynamo_NumberTensor : RankedTensorOf<[F64, F32, BF16, F16, I64, I32, I16, I8, UI8]>;
def Dynamo_IntTensor : RankedTensorOf<[I64, I32, I16, I8, UI8, I1]>;
def Dynamo_BoolTensor : RankedTensorOf<[I1]>;
def Dynamo_IndexTensor : RankedTensorOf<[I64]>;

#endif // DYNAMO_BASE
