//===- DynamoDialect.cpp - Registration, types, attributes ----------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dynamlir::dynamo;

#include "dynamo/DynamoDialect.cpp.inc"
#include "dynamo/DynamoEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dynamo/DynamoAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dynamo/DynamoTypes.cpp.inc"

void DynamoDialect::initialize() {
  nameAttributes();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dynamo/DynamoAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dynamo/DynamoTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dynamo/DynamoOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// !dynamo.tensor<2x3xf32, [3, 1], 0>
//===----------------------------------------------------------------------===//

/// Parses `[128, s0, ?]`: numbers, with `?` for unknown ones and for expressions; `symbolic` contains the expressions,
/// or is null.
static ParseResult parseStrides(AsmParser &parser, SmallVectorImpl<int64_t> &numbers, SizesAttr &symbolic) {
  SmallVector<Attribute> sizes;
  SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      numbers.push_back(ShapedType::kDynamic);
      return success();
    }
    if (failed(parseSize(parser, sizes.emplace_back())))
      return failure();
    numbers.push_back(Size::of(sizes.back()).getNumber());
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  if (llvm::none_of(sizes, llvm::IsaPred<ExprAttr>))
    return success();
  if (sizes.size() != numbers.size())
    return parser.emitError(loc) << "`?` and expressions do not mix";
  symbolic = SizesAttr::get(parser.getContext(), sizes);
  return success();
}

static void printStrides(AsmPrinter &printer, ArrayRef<int64_t> numbers, SizesAttr symbolic) {
  if (symbolic) {
    printer << sizesToString(sizesOf(Attribute(symbolic)));
    return;
  }
  printer << "[";
  llvm::interleaveComma(numbers, printer, [&](int64_t number) {
    if (ShapedType::isDynamic(number))
      printer << "?";
    else
      printer << number;
  });
  printer << "]";
}

Type MutableTensorType::parse(AsmParser &parser) {
  SmallVector<int64_t> sizes, strides;
  SizesAttr symbolicSizes, symbolicStrides;
  Type element;
  Attribute offset;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  // Brackets introduce the form with expressions; numbers are written as in every tensor.
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> list;
    if (parser.parseCommaSeparatedList([&] { return parseSize(parser, list.emplace_back()); }) || parser.parseRSquare() ||
        parser.parseXInDimensionList())
      return {};
    for (Attribute size : list)
      sizes.push_back(Size::of(size).getNumber());
    if (llvm::any_of(list, llvm::IsaPred<ExprAttr>))
      symbolicSizes = SizesAttr::get(parser.getContext(), list);
  } else if (parser.parseDimensionList(sizes)) {
    return {};
  }
  if (parser.parseType(element) || parser.parseComma() || parseStrides(parser, strides, symbolicStrides))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parseSize(parser, offset))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<MutableTensorType>(loc, parser.getContext(), sizes, element, strides, offset ? Size::of(offset).getNumber() : 0,
                                              symbolicSizes, symbolicStrides, dyn_cast_or_null<ExprAttr>(offset));
}

void MutableTensorType::print(AsmPrinter &printer) const {
  printer << "<";
  if (getSymbolicSizes())
    printStrides(printer, getSizes(), getSymbolicSizes());
  else
    printer.printDimensionList(getSizes());
  if (!getSizes().empty())
    printer << "x";
  printer << getElementType() << ", ";
  printStrides(printer, getStrides(), getSymbolicStrides());
  if (getSymbolicOffset() || getOffset() != 0)
    printer << ", " << (getSymbolicOffset() ? Size(getSymbolicOffset()) : Size(getOffset())).str();
  printer << ">";
}

/// Checks that symbolic sizes match the numbers: an expression is `?` in them, and a number is the same.
static LogicalResult verifySymbolic(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> numbers, SizesAttr symbolic) {
  if (!symbolic || llvm::equal(numbers, llvm::map_range(symbolic.getSizes(), [](Attribute size) { return Size::of(size).getNumber(); })))
    return success();
  return emitError() << sizesToString(sizesOf(numbers)) << " are not the numbers in " << symbolic;
}

LogicalResult MutableTensorType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> sizes, Type elementType,
                                        ArrayRef<int64_t> strides, int64_t offset, SizesAttr symbolicSizes, SizesAttr symbolicStrides,
                                        ExprAttr symbolicOffset) {
  if (sizes.size() != strides.size())
    return emitError() << "expected one stride per dimension: " << sizes.size() << " sizes, " << strides.size()
                       << " strides";
  auto negative = [](int64_t number) { return number < 0 && !ShapedType::isDynamic(number); };
  if (symbolicOffset ? !ShapedType::isDynamic(offset) : offset < 0)
    return emitError() << "expected a storage offset that is not negative, got " << offset;
  for (int64_t stride : strides)
    if (negative(stride))
      return emitError() << "expected strides that are not negative, got " << stride;
  for (int64_t size : sizes)
    if (negative(size))
      return emitError() << "expected sizes that are not negative, got " << size;
  if (failed(verifySymbolic(emitError, sizes, symbolicSizes)) || failed(verifySymbolic(emitError, strides, symbolicStrides)))
    return failure();
  if (!isa<FloatType, IntegerType, ComplexType>(elementType))
    return emitError() << "expected a torch element type, got " << elementType;
  return success();
}

//===----------------------------------------------------------------------===//
// #dynamo.output<arg_view 1, [2], [1], 4>
//===----------------------------------------------------------------------===//

static bool isView(OutputKind kind) { return kind == OutputKind::arg_view || kind == OutputKind::result_view; }

Attribute OutputAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<OutputKind> kind = symbolizeOutputKind(keyword);
  if (!kind) {
    parser.emitError(loc) << "expected an output kind, got '" << keyword << "'";
    return {};
  }
  int64_t index = 0;
  SmallVector<int64_t> sizes, strides;
  SizesAttr symbolicSizes, symbolicStrides;
  Attribute offset;
  if (*kind != OutputKind::none && parser.parseInteger(index))
    return {};
  if (isView(*kind) && (parser.parseComma() || parseStrides(parser, sizes, symbolicSizes) || parser.parseComma() ||
                        parseStrides(parser, strides, symbolicStrides) || parser.parseComma() || parseSize(parser, offset)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<OutputAttr>(loc, parser.getContext(), *kind, index, sizes, strides, offset ? Size::of(offset).getNumber() : 0,
                                       symbolicSizes, symbolicStrides, dyn_cast_or_null<ExprAttr>(offset));
}

void OutputAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyOutputKind(getKind());
  if (getKind() != OutputKind::none)
    printer << " " << getIndex();
  if (isView(getKind())) {
    printer << ", ";
    printStrides(printer, getSizes(), getSymbolicSizes());
    printer << ", ";
    printStrides(printer, getStrides(), getSymbolicStrides());
    printer << ", " << (getSymbolicOffset() ? Size(getSymbolicOffset()) : Size(getOffset())).str();
  }
  printer << ">";
}

LogicalResult OutputAttr::verify(function_ref<InFlightDiagnostic()> emitError, OutputKind kind, int64_t index,
                                 ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, int64_t offset, SizesAttr symbolicSizes,
                                 SizesAttr symbolicStrides, ExprAttr symbolicOffset) {
  if (kind != OutputKind::constant && index < 0)
    return emitError() << "expected a number that is not negative, got " << index;
  if (sizes.size() != strides.size())
    return emitError() << "expected one stride per dimension: " << sizes.size() << " sizes, " << strides.size()
                       << " strides";
  auto negative = [](int64_t value) { return value < 0 && !ShapedType::isDynamic(value); };
  if (llvm::any_of(sizes, negative) || llvm::any_of(strides, negative) || (offset < 0 && !symbolicOffset))
    return emitError() << "expected sizes, strides and offset that are not negative";
  if (failed(verifySymbolic(emitError, sizes, symbolicSizes)))
    return failure();
  return verifySymbolic(emitError, strides, symbolicStrides);
}

//===----------------------------------------------------------------------===//
// #dynamo.base<arg 1>
//===----------------------------------------------------------------------===//

Attribute BaseAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<BaseKind> kind = symbolizeBaseKind(keyword);
  if (!kind) {
    parser.emitError(loc) << "expected a kind of base, got '" << keyword << "'";
    return {};
  }
  int64_t index = 0;
  if ((*kind != BaseKind::none && parser.parseInteger(index)) || parser.parseGreater())
    return {};
  return parser.getChecked<BaseAttr>(loc, parser.getContext(), *kind, index);
}

void BaseAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyBaseKind(getKind());
  if (getKind() != BaseKind::none)
    printer << " " << getIndex();
  printer << ">";
}

LogicalResult BaseAttr::verify(function_ref<InFlightDiagnostic()> emitError, BaseKind kind, int64_t index) {
  if (index < 0 || (kind == BaseKind::none && index != 0))
    return emitError() << "expected a number that is not negative, got " << index;
  return success();
}
