//===- CAPI.cpp - The dialect for C and Rust ------------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Sizes.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace dynamlir::dynamo;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Dynamo, dynamo, dynamlir::dynamo::DynamoDialect)

bool dynamoTypeIsMutableTensor(MlirType type) { return isa<MutableTensorType>(unwrap(type)); }

MlirType dynamoMutableTensorTypeGet(MlirContext context, intptr_t rank, const int64_t *sizes, MlirType elementType,
                                    const int64_t *strides, int64_t offset) {
  return wrap(MutableTensorType::get(unwrap(context), ArrayRef(sizes, rank), unwrap(elementType),
                                     ArrayRef(strides, rank), offset));
}

static MutableTensorType mutableTensor(MlirType type) { return cast<MutableTensorType>(unwrap(type)); }

intptr_t dynamoMutableTensorTypeGetRank(MlirType type) { return mutableTensor(type).getSizes().size(); }
int64_t dynamoMutableTensorTypeGetSize(MlirType type, intptr_t dim) { return mutableTensor(type).getSizes()[dim]; }
int64_t dynamoMutableTensorTypeGetStride(MlirType type, intptr_t dim) { return mutableTensor(type).getStrides()[dim]; }

MlirType dynamoMutableTensorTypeGetOfSizes(MlirContext context, intptr_t rank, const MlirAttribute *sizes, MlirType elementType,
                                           const MlirAttribute *strides, MlirAttribute offset) {
  MLIRContext *ctx = unwrap(context);
  auto numbers = [](ArrayRef<Attribute> list) {
    return llvm::to_vector(llvm::map_range(list, [](Attribute size) { return Size::of(size).getNumber(); }));
  };
  auto symbolic = [&](ArrayRef<Attribute> list) {
    return llvm::any_of(list, llvm::IsaPred<ExprAttr>) ? SizesAttr::get(ctx, list) : SizesAttr();
  };
  SmallVector<Attribute> sizeList, strideList;
  (void)unwrapList(rank, sizes, sizeList);
  (void)unwrapList(rank, strides, strideList);
  auto emit = [&] { return emitError(UnknownLoc::get(ctx)); };
  SmallVector<int64_t> sizeNumbers = numbers(sizeList), strideNumbers = numbers(strideList);
  return wrap(Type(MutableTensorType::getChecked(emit, ctx, ArrayRef<int64_t>(sizeNumbers), unwrap(elementType),
                                                 ArrayRef<int64_t>(strideNumbers), Size::of(unwrap(offset)).getNumber(),
                                                 symbolic(sizeList), symbolic(strideList), dyn_cast<ExprAttr>(unwrap(offset)))));
}

/// A number as an attribute; null for `?`.
static MlirAttribute sizeAttr(MLIRContext *context, int64_t number) {
  return wrap(ShapedType::isDynamic(number) ? Attribute() : IntegerAttr::get(IntegerType::get(context, 64), number));
}

MlirAttribute dynamoMutableTensorTypeGetSizeAttr(MlirType type, intptr_t dim) {
  MutableTensorType tensor = mutableTensor(type);
  SizesAttr symbolic = tensor.getSymbolicSizes();
  return symbolic ? wrap(symbolic.getSizes()[dim]) : sizeAttr(tensor.getContext(), tensor.getSizes()[dim]);
}
MlirAttribute dynamoMutableTensorTypeGetStrideAttr(MlirType type, intptr_t dim) {
  MutableTensorType tensor = mutableTensor(type);
  SizesAttr symbolic = tensor.getSymbolicStrides();
  return symbolic ? wrap(symbolic.getSizes()[dim]) : sizeAttr(tensor.getContext(), tensor.getStrides()[dim]);
}
MlirAttribute dynamoMutableTensorTypeGetOffsetAttr(MlirType type) {
  MutableTensorType tensor = mutableTensor(type);
  return tensor.getSymbolicOffset() ? wrap(Attribute(tensor.getSymbolicOffset())) : sizeAttr(tensor.getContext(), tensor.getOffset());
}
int64_t dynamoMutableTensorTypeGetOffset(MlirType type) { return mutableTensor(type).getOffset(); }
MlirType dynamoMutableTensorTypeGetElementType(MlirType type) { return wrap(mutableTensor(type).getElementType()); }

MlirAttribute dynamoOperandAttrGet(MlirContext context, int64_t index) { return wrap(OperandAttr::get(unwrap(context), index)); }

int64_t dynamoOperandAttrGetIndex(MlirAttribute attr) {
  if (auto operand = dyn_cast<OperandAttr>(unwrap(attr)))
    return operand.getIndex();
  return -1;
}

/// Calls `visit` with a null attribute of the class with the mnemonic, if that is a class whose only parameter is a
/// text.
template <typename Result, typename Visit>
static Result visitTexts(StringRef mnemonic, Result none, Visit visit) {
  if (mnemonic == DeviceAttr::getMnemonic())
    return visit(DeviceAttr());
  if (mnemonic == MemoryFormatAttr::getMnemonic())
    return visit(MemoryFormatAttr());
  if (mnemonic == LayoutAttr::getMnemonic())
    return visit(LayoutAttr());
  return none;
}

MlirAttribute dynamoTextAttrGet(MlirContext context, MlirStringRef mnemonic, MlirStringRef value) {
  return visitTexts(unwrap(mnemonic), wrap(Attribute()), [&](auto none) {
    return wrap(Attribute(decltype(none)::get(unwrap(context), unwrap(value))));
  });
}

bool dynamoTextAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic, MlirStringRef *value) {
  return visitTexts(unwrap(mnemonic), false, [&](auto none) {
    auto found = dyn_cast<decltype(none)>(unwrap(attr));
    if (found)
      *value = wrap(found.getValue());
    return static_cast<bool>(found);
  });
}

MlirAttribute dynamoOutputAttrGet(MlirContext context, const DynamoOutput *fields) {
  auto kind = symbolizeOutputKind(static_cast<uint32_t>(fields->kind));
  if (!kind)
    return wrap(Attribute());
  auto emit = [&] { return emitError(UnknownLoc::get(unwrap(context))); };
  Attribute sizes = unwrap(fields->sizes), strides = unwrap(fields->strides), offset = unwrap(fields->offset);
  auto numbers = [](Attribute array) {
    return array ? llvm::to_vector(llvm::map_range(sizesOf(array), [](Size size) { return size.getNumber(); })) : SmallVector<int64_t>();
  };
  return wrap(Attribute(OutputAttr::getChecked(
      emit, unwrap(context), *kind, fields->index, ArrayRef<int64_t>(numbers(sizes)), ArrayRef<int64_t>(numbers(strides)),
      offset ? Size::of(offset).getNumber() : 0, dyn_cast_or_null<SizesAttr>(sizes), dyn_cast_or_null<SizesAttr>(strides),
      dyn_cast_or_null<ExprAttr>(offset))));
}

bool dynamoOutputAttrGetFields(MlirAttribute attr, DynamoOutput *fields) {
  auto output = dyn_cast<OutputAttr>(unwrap(attr));
  if (!output)
    return false;
  MLIRContext *context = output.getContext();
  *fields = {static_cast<int64_t>(output.getKind()), output.getIndex(), {nullptr}, {nullptr}, {nullptr}};
  if (output.getKind() != OutputKind::arg_view && output.getKind() != OutputKind::result_view)
    return true;
  auto list = [&](SizesAttr symbolic, ArrayRef<int64_t> numbers) {
    return wrap(symbolic ? Attribute(symbolic) : Attribute(DenseI64ArrayAttr::get(context, numbers)));
  };
  fields->sizes = list(output.getSymbolicSizes(), output.getSizes());
  fields->strides = list(output.getSymbolicStrides(), output.getStrides());
  fields->offset = output.getSymbolicOffset() ? wrap(Attribute(output.getSymbolicOffset())) : sizeAttr(context, output.getOffset());
  return true;
}

MlirAttribute dynamoBaseAttrGet(MlirContext context, int64_t kind, int64_t index) {
  auto known = symbolizeBaseKind(static_cast<uint32_t>(kind));
  if (!known)
    return wrap(Attribute());
  auto emit = [&] { return emitError(UnknownLoc::get(unwrap(context))); };
  return wrap(Attribute(BaseAttr::getChecked(emit, unwrap(context), *known, index)));
}

bool dynamoBaseAttrGetFields(MlirAttribute attr, int64_t *kind, int64_t *index) {
  auto base = dyn_cast<BaseAttr>(unwrap(attr));
  if (!base)
    return false;
  *kind = static_cast<int64_t>(base.getKind());
  *index = base.getIndex();
  return true;
}

/// Calls `visit` with a null attribute of each enumeration's class, until one returns a result.
template <typename Result, typename Visit>
static Result visitEnums(StringRef mnemonic, Result none, Visit visit) {
  if (mnemonic == PredicateAttr::getMnemonic())
    return visit(PredicateAttr(), [](uint64_t value) { return symbolizePredicate(value); });
  if (mnemonic == ReduceKindAttr::getMnemonic())
    return visit(ReduceKindAttr(), [](uint64_t value) { return symbolizeReduceKind(value); });
  if (mnemonic == RouteAttr::getMnemonic())
    return visit(RouteAttr(), [](uint64_t value) { return symbolizeRoute(value); });
  return none;
}

MlirAttribute dynamoEnumAttrGet(MlirContext context, MlirStringRef mnemonic, int64_t value) {
  return visitEnums(unwrap(mnemonic), wrap(Attribute()), [&](auto none, auto symbolize) {
    auto found = symbolize(value);
    return found ? wrap(Attribute(decltype(none)::get(unwrap(context), *found))) : wrap(Attribute());
  });
}

int64_t dynamoEnumAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic) {
  return visitEnums(unwrap(mnemonic), int64_t(-1), [&](auto none, auto) {
    auto found = dyn_cast<decltype(none)>(unwrap(attr));
    return found ? static_cast<int64_t>(found.getValue()) : int64_t(-1);
  });
}

MlirAttribute dynamoTargetAttrGet(MlirContext context, const DynamoTarget *parts) {
  MLIRContext *ctx = unwrap(context);
  return wrap(Attribute(TargetAttr::getChecked([ctx] { return emitError(UnknownLoc::get(ctx)); }, ctx, unwrap(parts->triple),
                                               unwrap(parts->cpu), unwrap(parts->features), parts->vectorBits,
                                               parts->libraryVectorBits, unwrap(parts->chip))));
}

bool dynamoTargetAttrGetParts(MlirAttribute attr, DynamoTarget *parts) {
  auto target = dyn_cast_or_null<TargetAttr>(unwrap(attr));
  if (!target)
    return false;
  *parts = {wrap(target.getTriple()), wrap(target.getCpu()),           wrap(target.getFeatures()),
            target.getVectorBits(),   target.getLibraryVectorBits(), wrap(target.getChip())};
  return true;
}

MlirAttribute dynamoFormatAttrGet(MlirContext context) { return wrap(Attribute(formatOfThisVersion(unwrap(context)))); }

MlirModule dynamoModuleParse(MlirContext context, MlirStringRef text, MlirStringRef file) {
  return MlirModule{parseSourceString<ModuleOp>(unwrap(text), ParserConfig(unwrap(context)), unwrap(file)).release().getOperation()};
}

bool dynamoSizeAttrIs(MlirAttribute attr) { return unwrap(attr) && isSize(unwrap(attr)); }

MlirAttribute dynamoSizeAttrGet(MlirContext context, MlirStringRef text) {
  MLIRContext *ctx = unwrap(context);
  return wrap(readSize(ctx, unwrap(text), [ctx](size_t) { return emitError(UnknownLoc::get(ctx)); }));
}

bool dynamoExprAttrGetText(MlirAttribute attr, MlirStringRef *text) {
  auto expression = dyn_cast_or_null<ExprAttr>(unwrap(attr));
  if (expression)
    *text = wrap(expression.getText());
  return static_cast<bool>(expression);
}

MlirAttribute dynamoSizesAttrGet(MlirContext context, intptr_t count, const MlirAttribute *sizes) {
  SmallVector<Attribute> list;
  (void)unwrapList(count, sizes, list);
  if (llvm::any_of(list, llvm::IsaPred<ExprAttr>))
    return wrap(Attribute(SizesAttr::get(unwrap(context), list)));
  auto numbers = llvm::to_vector(llvm::map_range(list, [](Attribute size) { return Size::of(size).getNumber(); }));
  return wrap(Attribute(DenseI64ArrayAttr::get(unwrap(context), numbers)));
}

intptr_t dynamoSizesAttrGetCount(MlirAttribute attr) {
  auto sizes = dyn_cast_or_null<SizesAttr>(unwrap(attr));
  return sizes ? static_cast<intptr_t>(sizes.getSizes().size()) : -1;
}
MlirAttribute dynamoSizesAttrGetSize(MlirAttribute attr, intptr_t index) { return wrap(cast<SizesAttr>(unwrap(attr)).getSizes()[index]); }

MlirAttribute dynamoSymbolAttrGet(MlirContext context, const DynamoSymbol *fields) {
  MLIRContext *ctx = unwrap(context);
  auto emit = [ctx] { return emitError(UnknownLoc::get(ctx)); };
  return wrap(Attribute(SizeSymbolAttr::getChecked(emit, ctx, fields->number, fields->argument, fields->dim, fields->min, fields->max,
                                                   fields->divisor, fields->hint)));
}

bool dynamoSymbolAttrGetFields(MlirAttribute attr, DynamoSymbol *fields) {
  auto symbol = dyn_cast_or_null<SizeSymbolAttr>(unwrap(attr));
  if (symbol)
    *fields = {symbol.getNumber(), symbol.getArgument(), symbol.getDim(), symbol.getMin(),
               symbol.getMax(),    symbol.getDivisor(),  symbol.getHint()};
  return static_cast<bool>(symbol);
}

bool dynamoContextHoldsExpressions(MlirContext context) {
  auto *dialect = unwrap(context)->getLoadedDialect<DynamoDialect>();
  return dialect && dialect->holdsExpressions();
}

MlirOperation dynamoFindExpression(MlirOperation root, MlirStringRef *text) {
  Operation *found = nullptr;
  AttrTypeWalker walker;
  walker.addWalk([&](ExprAttr expression) {
    *text = wrap(expression.getText());
    return WalkResult::interrupt();
  });
  auto says = [&](auto part) { return walker.walk(part).wasInterrupted(); };
  // The condition under which a kernel's loops are parallel refers to its arguments, regardless of what it is lowered
  // to.
  auto attributeSays = [&](NamedAttribute attribute) {
    return attribute.getName() != "dynamo.parallel" && says(attribute.getValue());
  };
  unwrap(root)->walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool here = llvm::any_of(op->getAttrs(), attributeSays) || llvm::any_of(op->getResultTypes(), says);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        here = here || llvm::any_of(block.getArgumentTypes(), says);
    found = here ? op : nullptr;
    return here ? WalkResult::interrupt() : WalkResult::advance();
  });
  return wrap(found);
}

void dynamoDataLayout(MlirStringRef triple, void *userData, void (*take)(MlirStringRef layout, void *userData)) {
  std::string layout = llvm::Triple(unwrap(triple)).computeDataLayout();
  take(wrap(StringRef(layout)), userData);
}

void dynamoOperationDropReferences(MlirOperation op) { unwrap(op)->dropAllReferences(); }
bool dynamoOperationIsElementwise(MlirOperation op) { return unwrap(op)->hasTrait<OpTrait::Elementwise>(); }
bool dynamoOperationIsPure(MlirOperation op) { return isPure(unwrap(op)); }
