//===- AttributeVerifiers.cpp - Verifies dynamo.* attributes of others ----===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph function and the kernels are plain functions; their discardable
// attributes make them a graph and kernels (see the stage contracts in
// ARCHITECTURE.md). Passes and runtime read these attributes without further
// checks, so each is verified here, on any operation.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace dynamlir::dynamo;

/// Checks `array<i64: …>` without a negative number. `who` starts the message.
static LogicalResult checkCounts(Operation *op, Twine who, Attribute value) {
  auto array = dyn_cast<DenseI64ArrayAttr>(value);
  if (!array)
    return op->emitOpError() << who << " must be an array of i64, got " << value;
  if (llvm::any_of(array.asArrayRef(), [](int64_t number) { return number < 0; }))
    return op->emitOpError() << who << " must not be negative, got " << value;
  return success();
}

/// Checks an integer from 0 up to `limit`.
static LogicalResult checkNumber(Operation *op, Twine who, Attribute value, int64_t limit) {
  auto number = dyn_cast<IntegerAttr>(value);
  if (!number || !number.getType().isSignlessInteger(64) || number.getInt() < 0 || number.getInt() >= limit)
    return op->emitOpError() << who << " must be an i64 from 0 to below " << limit << ", got " << value;
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes of the module
//===----------------------------------------------------------------------===//

/// Returns true for a vector width: none, or a power of two that some processor has.
static bool isVectorWidth(int64_t bits) { return bits == 0 || (bits >= 64 && bits <= 2048 && llvm::isPowerOf2_64(bits)); }

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef triple, StringRef cpu,
                                 StringRef features, int64_t vectorBits, int64_t libraryVectorBits, StringRef chip) {
  if (llvm::Triple(triple).getArch() == llvm::Triple::UnknownArch)
    return emitError() << "'" << triple << "' is not a triple that LLVM knows";
  if (cpu.empty())
    return emitError() << "expected LLVM's name of the processor, for example \"generic\"";
  for (StringRef feature : llvm::split(features, ','))
    if (!features.empty() && (feature.size() < 2 || (feature.front() != '+' && feature.front() != '-')))
      return emitError() << "expected features as \"+avx2,-avx512f\", got '" << feature << "'";
  for (auto [name, bits] : {std::pair("vector_bits", vectorBits), std::pair("library_vector_bits", libraryVectorBits)})
    if (!isVectorWidth(bits))
      return emitError() << "'" << name << "' must be 0 or a power of two from 64 to 2048, got " << bits;
  if (!chip.empty() && !chip.starts_with("sm_"))
    return emitError() << "expected a chip as \"sm_90\", got '" << chip << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes of functions
//===----------------------------------------------------------------------===//

/// The number of results that the user gets, which excludes those written into an argument.
static int64_t countResults(FunctionOpInterface function) {
  int64_t results = 0;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    results += !function.getResultAttr(i, "dynamo.mutates");
  return results;
}

/// Checks that the user's outputs refer to existing arguments, results and outputs.
static LogicalResult checkOutputs(FunctionOpInterface function, Attribute value) {
  auto outputs = dyn_cast<ArrayAttr>(value);
  if (!outputs)
    return function.emitOpError() << "'dynamo.outputs' must be an array of #dynamo.output, got " << value;
  int64_t results = countResults(function);
  llvm::SmallBitVector taken(results);
  for (auto [position, attribute] : llvm::enumerate(outputs)) {
    auto output = dyn_cast<OutputAttr>(attribute);
    if (!output)
      return function.emitOpError() << "'dynamo.outputs' must be an array of #dynamo.output, got " << attribute;
    for (Attribute sizes : {Attribute(output.getSymbolicSizes()), Attribute(output.getSymbolicStrides())})
      if (sizes && failed(verifyNotNegative(function, "a view in 'dynamo.outputs'", sizesOf(sizes))))
        return failure();
    if (output.getSymbolicOffset() && failed(verifyNotNegative(function, "a view in 'dynamo.outputs'", Size(output.getSymbolicOffset()))))
      return failure();
    int64_t limit = std::numeric_limits<int64_t>::max();
    switch (output.getKind()) {
    case OutputKind::result:
    case OutputKind::result_view:
      limit = results;
      break;
    case OutputKind::arg:
    case OutputKind::arg_view:
      limit = function.getNumArguments();
      break;
    case OutputKind::same:
      limit = position;
      break;
    case OutputKind::none:
    case OutputKind::constant:
      continue;
    }
    if (output.getIndex() >= limit)
      return function.emitOpError() << "output " << position << ", " << output << ", names nothing: there are " << limit;
    if (output.getKind() != OutputKind::result)
      continue;
    if (taken.test(output.getIndex()))
      return function.emitOpError() << "output " << position << " repeats result " << output.getIndex()
                                    << ": the same object is #dynamo.output<same …>";
    taken.set(output.getIndex());
  }
  return success();
}

/// Checks that a base is possible: it exists, is not the output itself, and is not a view.
static LogicalResult checkBase(FunctionOpInterface function, ArrayAttr bases, int64_t position, BaseAttr base) {
  int64_t index = base.getIndex();
  auto fail = [&] { return function.emitOpError() << "base of output " << position << ", " << base << ", "; };
  switch (base.getKind()) {
  case BaseKind::none:
    return success();
  case BaseKind::arg:
    if (index >= function.getNumArguments())
      return fail() << "names nothing: there are " << function.getNumArguments() << " arguments";
    return success();
  case BaseKind::output: {
    if (index >= static_cast<int64_t>(bases.size()))
      return fail() << "names nothing: there are " << bases.size() << " outputs";
    if (index == position)
      return fail() << "is the output itself";
    auto other = dyn_cast<BaseAttr>(bases[index]);
    if (other && other.getKind() != BaseKind::none)
      return fail() << "is a view itself, of " << other;
    return success();
  }
  case BaseKind::hidden:
    if (index > position || bases[index] != base)
      return fail() << "has the number of an output that is not the first view of it";
    return success();
  }
  return success();
}

/// Checks that there is one base per output. `unit` is the base that the output has anyway.
static LogicalResult checkBases(FunctionOpInterface function, Attribute value) {
  auto bases = dyn_cast<ArrayAttr>(value);
  if (!bases)
    return function.emitOpError() << "'dynamo.bases' must be an array of #dynamo.base, got " << value;
  // Without a list, the user's outputs are the results.
  auto outputs = function->getAttrOfType<ArrayAttr>("dynamo.outputs");
  int64_t count = outputs ? static_cast<int64_t>(outputs.size()) : countResults(function);
  if (static_cast<int64_t>(bases.size()) != count)
    return function.emitOpError() << "'dynamo.bases' must say one for each output: there are " << count << ", it has "
                                  << bases.size();
  for (auto [position, attribute] : llvm::enumerate(bases)) {
    auto base = dyn_cast<BaseAttr>(attribute);
    if (!base && !isa<UnitAttr>(attribute))
      return function.emitOpError() << "'dynamo.bases' must be an array of #dynamo.base, got " << attribute;
    if (base && failed(checkBase(function, bases, position, base)))
      return failure();
  }
  return success();
}

/// Writes are counted one by one, so a larger number would keep a call busy; no program writes that often. The runtime
/// has the same limit.
static constexpr int64_t maxVersion = int64_t(1) << 20;

/// Checks that there is a version counter for each result that the user gets.
static LogicalResult checkVersions(FunctionOpInterface function, Attribute value) {
  if (failed(checkCounts(function, "'dynamo.versions'", value)))
    return failure();
  auto versions = cast<DenseI64ArrayAttr>(value);
  if (versions.size() != countResults(function))
    return function.emitOpError() << "'dynamo.versions' must have a number for each of the " << countResults(function)
                                  << " results that are returned, got " << value;
  if (llvm::any_of(versions.asArrayRef(), [](int64_t version) { return version >= maxVersion; }))
    return function.emitOpError() << "'dynamo.versions' must be below " << maxVersion << ", got " << value;
  return success();
}

/// One more than the number of times that a function may be differentiated: it grows each time.
constexpr int64_t maxOrder = 9;

/// Checks positions of outputs or arguments: each once and in order.
static LogicalResult checkPositions(FunctionOpInterface function, StringRef name, Attribute value, int64_t count, StringRef what) {
  if (failed(checkCounts(function, "'" + name + "'", value)))
    return failure();
  int64_t previous = -1;
  for (int64_t position : cast<DenseI64ArrayAttr>(value).asArrayRef()) {
    if (position <= previous || position >= count)
      return function.emitOpError() << "'" << name << "' must be increasing positions of the " << count << " " << what << ", got " << value;
    previous = position;
  }
  return success();
}

/// Checks that there is for each output the position of another one, for example the one it was created from, or -1.
static LogicalResult checkOthers(FunctionOpInterface function, StringRef name, Attribute value, int64_t count, StringRef what) {
  auto others = dyn_cast<DenseI64ArrayAttr>(value);
  auto isOther = [&](auto entry) { return entry.value() >= -1 && entry.value() < count && entry.value() != static_cast<int64_t>(entry.index()); };
  if (!others || others.size() > count || !llvm::all_of(llvm::enumerate(others.asArrayRef()), isOther))
    return function.emitOpError() << "'" << name << "' must say for each of the " << count << " outputs which other one it is " << what
                                  << ", or -1, got " << value;
  return success();
}

/// Checks that a function that computes gradients of another takes the values saved by that one, followed by tangents.
static LogicalResult checkDerivative(FunctionOpInterface function, StringRef name, Attribute value, bool takesAll) {
  auto symbol = dyn_cast<FlatSymbolRefAttr>(value);
  if (!symbol)
    return function.emitOpError() << "'" << name << "' must be the symbol of a function beside it, got " << value;
  auto vjp = dyn_cast_or_null<FunctionOpInterface>(SymbolTable::lookupNearestSymbolFrom(function->getParentOp(), symbol));
  if (!vjp)
    return function.emitOpError() << "'" << name << "' names " << value << ", which is not a function beside it";
  auto saved = function->getAttrOfType<IntegerAttr>("dynamo.saved");
  if (!saved)
    return function.emitOpError() << "'" << name << "' needs 'dynamo.saved', the number of outputs that are kept for it";
  int64_t taken = saved.getInt();
  if (auto kept = vjp->getAttrOfType<DenseI64ArrayAttr>("dynamo.kept"); kept && !takesAll) {
    taken = kept.size();
    for (int64_t at : kept.asArrayRef())
      if (at < 0 || at >= saved.getInt())
        return function.emitOpError() << "'dynamo.kept' of " << value << " names kept value " << at << " of " << saved.getInt();
  }
  for (auto [i, type] : llvm::enumerate(vjp.getArgumentTypes()))
    if ((static_cast<int64_t>(i) < taken) == static_cast<bool>(vjp.getArgAttr(i, "dynamo.tangent")))
      return function.emitOpError() << "'" << name << "' takes " << taken << " saved values and then tangents, but argument " << i << " of "
                                    << value << (vjp.getArgAttr(i, "dynamo.tangent") ? " is a tangent" : " is not a tangent");
  return success();
}

/// Checks the derivative functions of several nodes, each given by its symbol.
static LogicalResult checkDerivatives(FunctionOpInterface function, Attribute value) {
  auto symbols = dyn_cast<ArrayAttr>(value);
  if (!symbols || symbols.size() < 2)
    return function.emitOpError() << "'dynamo.vjps' must list the functions of at least two nodes, got " << value;
  for (Attribute symbol : symbols)
    if (failed(checkDerivative(function, "dynamo.vjps", symbol, false)))
      return failure();
  return success();
}

/// Checks the types of values that are passed between nodes and not visible elsewhere.
static LogicalResult checkCrossing(FunctionOpInterface function, Attribute value) {
  auto types = dyn_cast<ArrayAttr>(value);
  auto isTensor = [](Attribute type) { return isa<TypeAttr>(type) && isa<RankedTensorType>(cast<TypeAttr>(type).getValue()); };
  if (!types || !llvm::all_of(types, isTensor))
    return function.emitOpError() << "'dynamo.crossing' must list types of tensors, got " << value;
  return success();
}

/// Returns true if two memrefs differ only in the naming of their elements' bits.
static bool isSameMemory(Type actual, Type expected) {
  auto lhs = dyn_cast<MemRefType>(actual), rhs = dyn_cast<MemRefType>(expected);
  return lhs && rhs && rhs.getElementType().isBF16() && lhs.getElementType().isInteger(16) &&
         lhs.getShape() == rhs.getShape() && lhs.getLayout() == rhs.getLayout();
}

/// Returns true if the type is the first element of a window whose type does not give all sizes and strides.
static bool isAddressOf(MemRefType window, Type type) {
  auto element = dyn_cast<MemRefType>(type);
  int64_t offset;
  SmallVector<int64_t> strides;
  bool open = !window.hasStaticShape() ||
              (succeeded(window.getStridesAndOffset(strides, offset)) && llvm::any_of(strides, ShapedType::isDynamic));
  MemRefType first = MemRefType::get({}, window.getElementType());
  return open && element && (element == first || isSameMemory(element, first));
}

/// Checks the memory types that a kernel takes, which never change: launches are verified against them if the kernel
/// itself takes bare pointers.
static LogicalResult checkSignature(FunctionOpInterface kernel, Attribute value) {
  auto attribute = dyn_cast<TypeAttr>(value);
  auto type = attribute ? dyn_cast<FunctionType>(attribute.getValue()) : FunctionType();
  if (!type)
    return kernel.emitOpError() << "'dynamo.signature' must be a function type, got " << value;
  SmallVector<Type> taken(type.getInputs());
  llvm::append_range(taken, type.getResults());
  // Sizes come after the operands in memory.
  ArrayRef<Type> arguments = kernel.getArgumentTypes();
  while (arguments.size() > taken.size() && (arguments.back().isIndex() || arguments.back().isSignlessInteger(64)))
    arguments = arguments.drop_back();
  if (taken.size() != arguments.size() || kernel.getNumResults() != 0)
    return kernel.emitOpError() << "'dynamo.signature' has " << taken.size() << " operands, the kernel " << arguments.size();
  for (auto [i, expected, actual] : llvm::enumerate(taken, arguments)) {
    if (!isa<MemRefType>(expected))
      return kernel.emitOpError() << "'dynamo.signature' must name memrefs, got " << expected;
    // Bare pointers do not have types that could differ. If the hardware does not support bf16, its memory becomes i16
    // on the way to LLVM: the same bits. For a window with a `?`, a kernel takes the address, and computes the rest
    // from its sizes.
    if (isa<ShapedType>(actual) && actual != expected && !isSameMemory(actual, expected) &&
        !isAddressOf(cast<MemRefType>(expected), actual))
      return kernel.emitOpError() << "argument " << i << " is " << actual << ", in 'dynamo.signature' it is " << expected;
  }
  return success();
}

static LogicalResult checkReducedDims(Operation *kernel, Attribute value) {
  if (failed(checkCounts(kernel, "'dynamo.reduced_dims'", value)))
    return failure();
  Attribute domain = kernel->getAttr("dynamo.domain");
  bool isKnown = isa_and_nonnull<DenseI64ArrayAttr, SizesAttr>(domain);
  int64_t previous = -1;
  for (int64_t dim : cast<DenseI64ArrayAttr>(value).asArrayRef()) {
    if (dim <= previous || (isKnown && dim >= static_cast<int64_t>(countSizes(domain))))
      return kernel->emitOpError() << "'dynamo.reduced_dims' must be increasing dimensions of 'dynamo.domain', got "
                                   << value;
    previous = dim;
  }
  return success();
}

LogicalResult DynamoDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  bool ofFunction = llvm::is_contained({"dynamo.entry", "dynamo.outputs", "dynamo.bases", "dynamo.versions",
                                        "dynamo.random", "dynamo.kernel", "dynamo.signature", "dynamo.differentiable",
                                        "dynamo.without_grad", "dynamo.one_of_several", "dynamo.made_from", "dynamo.made_beside", "dynamo.vjp", "dynamo.saved", "dynamo.order",
                                        "dynamo.primals", "dynamo.kept_keys", "dynamo.kept_sizes", "dynamo.recomputed", "dynamo.vjps",
                                        "dynamo.crossing", "dynamo.kept", "dynamo.by_views", "dynamo.path",
                                        "dynamo.given"},
                                       name);
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (failed(verifyName(op, attribute.getName())))
    return failure();
  if (name == "dynamo.format" && (!isa<ModuleOp>(op) || !isa<FormatAttr>(value)))
    return op->emitOpError() << "'dynamo.format' must be a #dynamo.format of a module, got " << value;
  if (name == "dynamo.target" && (!isa<ModuleOp>(op) || !isa<TargetAttr>(value)))
    return op->emitOpError() << "'dynamo.target' must be a #dynamo.target of a module, got " << value;
  if (name == "dynamo.eager_random" && (!isa<ModuleOp>(op) || !isa<UnitAttr>(value)))
    return op->emitOpError() << "'dynamo.eager_random' must be a unit attribute of a module, got " << value;
  if (name == "dynamo.memory_budget") {
    auto percent = dyn_cast<IntegerAttr>(value);
    if (!isa<ModuleOp>(op) || !percent || !percent.getType().isInteger(64) || percent.getInt() < 0 || percent.getInt() > 100)
      return op->emitOpError() << "'dynamo.memory_budget' must be a percentage of a module, from 0 to 100, got " << value;
  }
  if (name == "dynamo.recompute")
    return function ? LogicalResult(op->emitOpError() << "'dynamo.recompute' belongs to an operation of a function's body")
                    : checkNumber(op, "'dynamo.recompute'", value, std::numeric_limits<int32_t>::max());
  if (ofFunction && !function)
    return op->emitOpError() << "'" << name << "' belongs to a function";
  if ((name == "dynamo.entry" || name == "dynamo.random" || name == "dynamo.kernel") && !isa<UnitAttr>(value))
    return op->emitOpError() << "'" << name << "' must be a unit attribute, got " << value;
  if (name == "dynamo.symbols")
    return function ? verifySymbols(function, value) : LogicalResult(op->emitOpError() << "'dynamo.symbols' belongs to a function");
  if (name == "dynamo.assumed" && !isa<StringAttr>(value))
    return op->emitOpError() << "'dynamo.assumed' must be a string such as \"s0 <= s1; s0 mod 4 == 0\", got " << value;
  if ((name == "dynamo.entry" || name == "dynamo.kernel") && !op->hasAttr("dynamo.symbols") &&
      op->getContext()->getLoadedDialect<DynamoDialect>()->holdsExpressions())
    return function ? verifyNamedSymbols(function) : verifyDeclared(op);
  if (name == "dynamo.outputs")
    return checkOutputs(function, value);
  if (name == "dynamo.bases")
    return checkBases(function, value);
  if (name == "dynamo.versions")
    return checkVersions(function, value);
  auto countOutputs = [&] {
    auto outputs = function->getAttrOfType<ArrayAttr>("dynamo.outputs");
    return outputs ? static_cast<int64_t>(outputs.size()) : countResults(function);
  };
  if (name == "dynamo.differentiable" || name == "dynamo.without_grad" || name == "dynamo.one_of_several")
    return checkPositions(function, name, value, countOutputs(), "outputs");
  if (name == "dynamo.made_from")
    return checkOthers(function, name, value, countOutputs(), "made from");
  if (name == "dynamo.made_beside")
    return checkOthers(function, name, value, countOutputs(), "made beside");
  if (name == "dynamo.primals" || name == "dynamo.by_views")
    return checkPositions(function, name, value, function.getNumArguments(), "arguments");
  if (name == "dynamo.given")
    return checkPositions(function, name, value, std::numeric_limits<int32_t>::max(), "results of a node");
  if (name == "dynamo.order")
    return checkNumber(op, "'dynamo.order'", value, maxOrder);
  if (name == "dynamo.recomputed")
    return checkNumber(op, "'dynamo.recomputed'", value, std::numeric_limits<int32_t>::max());
  if (name == "dynamo.vjp")
    return checkDerivative(function, name, value, true);
  if (name == "dynamo.vjps")
    return checkDerivatives(function, value);
  if (name == "dynamo.crossing")
    return checkCrossing(function, value);
  if (name == "dynamo.saved")
    return checkNumber(op, "'dynamo.saved'", value, 1 + countOutputs());
  if (name == "dynamo.kept_keys") {
    auto saved = function->getAttrOfType<IntegerAttr>("dynamo.saved");
    return checkNumber(op, "'dynamo.kept_keys'", value, saved ? saved.getInt() : 0);
  }
  if (name == "dynamo.kept_sizes") {
    auto saved = function->getAttrOfType<IntegerAttr>("dynamo.saved");
    if (!isa<UnitAttr>(value) || !saved || saved.getInt() < 1)
      return op->emitOpError() << "'dynamo.kept_sizes' must be a unit attribute of a function with 'dynamo.saved', got " << value;
  }
  if (name == "dynamo.draw")
    return isa<AtenOp>(op) ? checkNumber(op, "'dynamo.draw'", value, std::numeric_limits<int32_t>::max())
                           : LogicalResult(op->emitOpError() << "'dynamo.draw' belongs to a dynamo.aten");
  if (name == "dynamo.keys" && (!isa<AtenOp>(op) || !isa<UnitAttr>(value)))
    return op->emitOpError() << "'dynamo.keys' must be a unit attribute of a dynamo.aten or of an argument, got " << value;
  if (name == "dynamo.domain" && isa<SizesAttr>(value))
    return verifyNotNegative(op, "'dynamo.domain'", sizesOf(value));
  if (name == "dynamo.domain")
    return checkCounts(op, "'" + name + "'", value);
  if (name == "dynamo.reduced_dims")
    return checkReducedDims(op, value);
  if (name == "dynamo.signature")
    return checkSignature(function, value);
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes of the graph's arguments and results
//===----------------------------------------------------------------------===//

/// Checks that there is one stride per dimension, consistent with a memref's own layout.
static LogicalResult checkStrides(Operation *op, Twine who, Type type, Attribute value) {
  if (auto symbolic = dyn_cast<SizesAttr>(value)) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || !shaped.hasRank() || shaped.getRank() != static_cast<int64_t>(symbolic.getSizes().size()))
      return op->emitOpError() << who << " must have a size per dimension of a tensor, got " << value << " for " << type;
    int64_t offset;
    SmallVector<int64_t> own;
    auto memref = dyn_cast<MemRefType>(type);
    // Where the type has a number, the attribute must have the same number.
    if (memref && succeeded(memref.getStridesAndOffset(own, offset)))
      for (auto [theirs, said] : llvm::zip_equal(own, sizesOf(value)))
        if (!ShapedType::isDynamic(theirs) && !areEqual(op, theirs, said))
          return op->emitOpError() << who << " are not those of " << type << ", got " << value;
    // Memory may be traversed backwards, tensors may not.
    return memref ? success() : verifyNotNegative(op, who, sizesOf(value));
  }
  if (failed(checkCounts(op, who, value)))
    return failure();
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return success();
  ArrayRef<int64_t> strides = cast<DenseI64ArrayAttr>(value).asArrayRef();
  if (static_cast<int64_t>(strides.size()) != shaped.getRank())
    return op->emitOpError() << who << " must have a number per dimension of " << type << ", got " << value;
  int64_t offset;
  SmallVector<int64_t> own;
  auto memref = dyn_cast<MemRefType>(type);
  if (memref && succeeded(memref.getStridesAndOffset(own, offset)) && ArrayRef(own) != strides)
    return op->emitOpError() << who << " are not those of " << type << ", got " << value;
  return success();
}

static LogicalResult checkOffset(Operation *op, Twine who, Type type, Attribute value) {
  auto open = [](MemRefType memref) {
    int64_t offset;
    SmallVector<int64_t> strides;
    return memref && succeeded(memref.getStridesAndOffset(strides, offset)) && ShapedType::isDynamic(offset);
  };
  if (isa<ExprAttr>(value) && (isa<RankedTensorType>(type) || open(dyn_cast<MemRefType>(type))))
    return verifyNotNegative(op, who, Size::of(value));
  if (failed(checkNumber(op, who, value, std::numeric_limits<int64_t>::max())))
    return failure();
  int64_t offset;
  SmallVector<int64_t> strides;
  auto memref = dyn_cast<MemRefType>(type);
  if (memref && succeeded(memref.getStridesAndOffset(strides, offset)) && offset != cast<IntegerAttr>(value).getInt())
    return op->emitOpError() << who << " is not that of " << type << ", got " << value;
  return success();
}

/// Checks the sizes of an argument in memory.
static LogicalResult checkSizes(Operation *op, Twine who, Type type, Attribute value) {
  auto memref = dyn_cast<MemRefType>(type);
  auto said = dyn_cast<SizesAttr>(value);
  if (!memref || !said || memref.getRank() != static_cast<int64_t>(said.getSizes().size()))
    return op->emitOpError() << who << " must have a size per dimension of memory, got " << value << " for " << type;
  SizeList list = sizesOf(value);
  for (auto [size, number] : llvm::zip_equal(list, memref.getShape()))
    if (size.getNumber() != number)
      return op->emitOpError() << who << " are not those of " << type << ", got " << value;
  return verifyNotNegative(op, who, list);
}

LogicalResult DynamoDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                      NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (failed(verifyName(op, attribute.getName())))
    return failure();
  if (!function)
    return op->emitOpError() << "'" << name << "' belongs to an argument of a function";
  std::string who = ("'" + name + "' of argument " + Twine(argument)).str();
  Type type = function.getArgumentTypes()[argument];
  if (name == "dynamo.strides")
    return checkStrides(op, who, type, value);
  if (name == "dynamo.offset")
    return checkOffset(op, who, type, value);
  if (name == "dynamo.sizes")
    return checkSizes(op, who, type, value);
  if (name == "dynamo.storage")
    return checkNumber(op, who, value, int64_t(1) << 32);
  if (name == "dynamo.version_bumps")
    return checkNumber(op, who, value, maxVersion);
  if (name == "dynamo.requires_grad" && !isa<UnitAttr>(value))
    return op->emitOpError() << who << " must be a unit attribute, got " << value;
  if (name == "dynamo.keys") {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!isa<UnitAttr>(value) || (tensor && (tensor.getRank() != 1 || !tensor.getElementType().isInteger(64))))
      return op->emitOpError() << who << " must be a unit attribute of a row of i64, got " << value << " of " << type;
  }
  if (name == "dynamo.tangent" || name == "dynamo.primal" || name == "dynamo.node")
    return checkNumber(op, who, value, std::numeric_limits<int32_t>::max());
  if (name == "dynamo.name" && !isa<StringAttr>(value))
    return op->emitOpError() << who << " must be a string, got " << value;
  if (name == "dynamo.leads_to") {
    auto places = dyn_cast<ArrayAttr>(value);
    auto isPlace = [](Attribute place) {
      auto output = dyn_cast<OutputAttr>(place);
      return output && llvm::is_contained({OutputKind::arg, OutputKind::result, OutputKind::same}, output.getKind());
    };
    if (!places || !llvm::all_of(places, isPlace))
      return op->emitOpError() << who << " must list arguments, results and outputs as #dynamo.output, got " << value;
  }
  return success();
}

LogicalResult DynamoDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                         NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (failed(verifyName(op, attribute.getName())))
    return failure();
  if (!function)
    return op->emitOpError() << "'" << name << "' belongs to a result of a function";
  std::string who = ("'" + name + "' of result " + Twine(result)).str();
  Type type = function.getResultTypes()[result];
  if (name == "dynamo.strides")
    return checkStrides(op, who, type, value);
  if (name == "dynamo.gradient" || name == "dynamo.gradient_of" || name == "dynamo.gradient_of_output" || name == "dynamo.node")
    return checkNumber(op, who, value, std::numeric_limits<int32_t>::max());
  if (name == "dynamo.sources")
    return checkPositions(function, name, value, function.getNumArguments(), "arguments");
  if (name != "dynamo.mutates")
    return success();
  if (failed(checkNumber(op, who, value, function.getNumArguments())))
    return failure();
  if (function.getArgumentTypes()[cast<IntegerAttr>(value).getInt()] != type)
    return op->emitOpError() << who << " names an argument of another type than " << type;
  for (unsigned other = 0; other < result; ++other)
    if (function.getResultAttr(other, name) == value)
      return op->emitOpError() << who << " names the argument that result " << other << " is written to";
  return success();
}
