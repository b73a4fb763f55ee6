//===- DynamoDialect.cpp - Registration, types, attributes ----------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
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

static ParseResult parseI64List(AsmParser &parser, SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    if (succeeded(parser.parseOptionalQuestion())) {
      values.push_back(ShapedType::kDynamic);
      return ParseResult(success());
    }
    return parser.parseInteger(values.emplace_back());
  });
}

static void printI64List(AsmPrinter &printer, ArrayRef<int64_t> values) {
  printer << "[";
  llvm::interleaveComma(values, printer, [&](int64_t v) {
    if (ShapedType::isDynamic(v))
      printer << "?";
    else
      printer << v;
  });
  printer << "]";
}

Type MutableTensorType::parse(AsmParser &parser) {
  SmallVector<int64_t> sizes, strides;
  Type element;
  int64_t offset = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(sizes) || parser.parseType(element) ||
      parser.parseComma() || parseI64List(parser, strides))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parser.parseInteger(offset))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<MutableTensorType>(loc, parser.getContext(), sizes, element, strides, offset);
}

void MutableTensorType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getSizes());
  if (!getSizes().empty())
    printer << "x";
  printer << getElementType() << ", ";
  printI64List(printer, getStrides());
  if (getOffset() != 0)
    printer << ", " << getOffset();
  printer << ">";
}

LogicalResult MutableTensorType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> sizes,
                                        Type elementType, ArrayRef<int64_t> strides, int64_t offset) {
  if (sizes.size() != strides.size())
    return emitError() << "expected one stride per dimension: " << sizes.size() << " sizes, " << strides.size()
                       << " strides";
  if (offset < 0)
    return emitError() << "expected a storage offset that is not negative, got " << offset;
  for (int64_t stride : strides)
    if (!ShapedType::isDynamic(stride) && stride < 0)
      return emitError() << "expected strides that are not negative, got " << stride;
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
  int64_t index = 0, offset = 0;
  SmallVector<int64_t> sizes, strides;
  if (*kind != OutputKind::none && parser.parseInteger(index))
    return {};
  if (isView(*kind) && (parser.parseComma() || parseI64List(parser, sizes) || parser.parseComma() ||
                        parseI64List(parser, strides) || parser.parseComma() || parser.parseInteger(offset)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<OutputAttr>(loc, parser.getContext(), *kind, index, sizes, strides, offset);
}

void OutputAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyOutputKind(getKind());
  if (getKind() != OutputKind::none)
    printer << " " << getIndex();
  if (isView(getKind())) {
    printer << ", ";
    printI64List(printer, getSizes());
    printer << ", ";
    printI64List(printer, getStrides());
    printer << ", " << getOffset();
  }
  printer << ">";
}

LogicalResult OutputAttr::verify(function_ref<InFlightDiagnostic()> emitError, OutputKind kind, int64_t index,
                                 ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, int64_t offset) {
  if (kind != OutputKind::constant && index < 0)
    return emitError() << "expected a number that is not negative, got " << index;
  if (sizes.size() != strides.size())
    return emitError() << "expected one stride per dimension: " << sizes.size() << " sizes, " << strides.size()
                       << " strides";
  auto negative = [](int64_t value) { return value < 0 && !ShapedType::isDynamic(value); };
  if (llvm::any_of(sizes, negative) || llvm::any_of(strides, negative) || offset < 0)
    return emitError() << "expected sizes, strides and offset that are not negative";
  return success();
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
