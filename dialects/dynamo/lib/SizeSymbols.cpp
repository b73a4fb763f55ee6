//===- SizeSymbols.cpp - Declarations of symbols, and their uses ----------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function declares the symbols that occur in it as `dynamo.symbols`. The
// code here handles only expressions, and is not called if there are none.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace dynamlir::dynamo;

//===----------------------------------------------------------------------===//
// #dynamo.symbol<s0, argument = 0, dim = 1, min = 2, max = 1024, divisor = 8, hint = 16>
//===----------------------------------------------------------------------===//

static constexpr int64_t noLimit = std::numeric_limits<int64_t>::max();

/// The number of a symbol, which must be in its printed form: `s01` would be a second name for `s1`.
static std::optional<int64_t> symbolNumber(StringRef name) {
  uint32_t number;
  if (!name.starts_with("s") || name.drop_front().getAsInteger(10, number) || name != ("s" + Twine(number)).str())
    return std::nullopt;
  return number;
}

Attribute SizeSymbolAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return {};
  std::optional<int64_t> number = symbolNumber(name);
  if (!number) {
    parser.emitError(loc) << "expected a symbol such as s0, got '" << name << "'";
    return {};
  }
  struct Field {
    StringRef name;
    int64_t value;
    bool isGiven = false;
  };
  Field fields[] = {{"argument", -1}, {"dim", -1}, {"min", 2}, {"max", noLimit}, {"divisor", 1}, {"hint", -1}};
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc place = parser.getCurrentLocation();
    StringRef key;
    if (parser.parseKeyword(&key))
      return {};
    auto *field = llvm::find_if(fields, [&](const Field &field) { return field.name == key; });
    if (field == std::end(fields) || field->isGiven) {
      parser.emitError(place) << "'" << key << "' is " << (field == std::end(fields) ? "not a field of a symbol" : "said twice");
      return {};
    }
    field->isGiven = true;
    if (parser.parseEqual())
      return {};
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseInteger(field->value))
      return {};
    if (field->value < 0) {
      parser.emitError(at) << "expected '" << key << "' not to be negative, got " << field->value;
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<SizeSymbolAttr>(loc, parser.getContext(), *number, fields[0].value, fields[1].value, fields[2].value,
                                           fields[3].value, fields[4].value, fields[5].value);
}

void SizeSymbolAttr::print(AsmPrinter &printer) const {
  printer << "<s" << getNumber();
  auto field = [&](StringRef name, int64_t value, int64_t unsaid) {
    if (value != unsaid)
      printer << ", " << name << " = " << value;
  };
  field("argument", getArgument(), -1);
  field("dim", getDim(), -1);
  field("min", getMin(), 2);
  field("max", getMax(), noLimit);
  field("divisor", getDivisor(), 1);
  field("hint", getHint(), -1);
  printer << ">";
}

LogicalResult SizeSymbolAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t number, int64_t argument, int64_t dim,
                                     int64_t min, int64_t max, int64_t divisor, int64_t hint) {
  if (number < 0 || number > std::numeric_limits<uint32_t>::max())
    return emitError() << "there is no symbol s" << number;
  if (argument < -1 || dim < -1 || hint < -1)
    return emitError() << "expected an argument, a dimension and a hint that are not negative";
  if (dim >= 0 && argument < 0)
    return emitError() << "s" << number << " comes from a dimension: expected its argument, too";
  if (divisor < 1)
    return emitError() << "expected a divisor of at least 1, got " << divisor;
  // Checks that the first multiple from `min` on is at most `max`; written so that it does not overflow.
  if (min < 0 || min > max || (min % divisor != 0 && divisor - min % divisor > max - min))
    return emitError() << "s" << number << " has no value: there is no multiple of " << divisor << " from " << min << " to " << max;
  if (hint >= 0 && (hint < min || hint > max || hint % divisor != 0))
    return emitError() << "the hint " << hint << " is not a value of s" << number;
  return success();
}

//===----------------------------------------------------------------------===//
// Uses of symbols
//===----------------------------------------------------------------------===//

static FunctionOpInterface functionAround(Operation *op) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  return function ? function : op->getParentOfType<FunctionOpInterface>();
}

/// Returns true if the enclosing function declares the symbol.
static bool isDeclared(Operation *op, int64_t number) {
  FunctionOpInterface function = functionAround(op);
  auto symbols = function ? function->getAttrOfType<ArrayAttr>("dynamo.symbols") : ArrayAttr();
  return symbols && llvm::any_of(symbols, [&](Attribute attribute) {
           auto symbol = dyn_cast<SizeSymbolAttr>(attribute);
           return symbol && symbol.getNumber() == number;
         });
}

LogicalResult dynamlir::dynamo::verifyDeclared(Operation *op) {
  std::optional<int64_t> undeclared;
  AttrTypeWalker walker;
  walker.addWalk([&](ExprAttr expression) {
    for (int64_t number : expression.getSymbols())
      if (!isDeclared(op, number)) {
        undeclared = number;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  auto isFine = [&](auto part) { return !walker.walk(part).wasInterrupted(); };
  // Types first: their symbols matter most for the operation.
  bool fine = llvm::all_of(op->getOperandTypes(), isFine) && llvm::all_of(op->getResultTypes(), isFine) &&
              isFine(Attribute(op->getAttrDictionary()));
  if (fine)
    return success();
  FunctionOpInterface function = functionAround(op);
  if (!function)
    return op->emitOpError() << "names the symbol s" << *undeclared << " outside of a function, where none is declared";
  return op->emitOpError() << "names the symbol s" << *undeclared << ", which 'dynamo.symbols' of @"
                           << SymbolTable::getSymbolName(function).getValue() << " does not declare";
}

LogicalResult dynamlir::dynamo::verifySizes(Operation *op) {
  if (failed(verifyDeclared(op)))
    return failure();
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.getEncoding() && failed(verifyNotNegative(op, "sizes of the result", sizesOf(tensor))))
      return failure();
  }
  if (!op->hasTrait<OpTrait::Elementwise>())
    return success();
  RankedTensorType first;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes()))) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    // The trait compares numbers and `?`, regardless of expressions elsewhere.
    if (first && (first.getEncoding() || tensor.getEncoding()) && !haveOneShape(op, first, tensor))
      return op->emitOpError() << "expected operands and results of one shape, got " << first << " and " << tensor;
    first = tensor;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// dynamo.symbols
//===----------------------------------------------------------------------===//

/// Checks that the symbol's value can be found at its declared place.
static LogicalResult verifyPlace(FunctionOpInterface function, SizeSymbolAttr symbol) {
  auto wrong = [&] { return function.emitOpError() << "'dynamo.symbols' finds s" << symbol.getNumber(); };
  int64_t argument = symbol.getArgument(), dim = symbol.getDim();
  if (argument < 0)
    return function->hasAttr("dynamo.entry") ? LogicalResult(wrong() << " nowhere: an entry says which argument has it") : success();
  if (argument >= static_cast<int64_t>(function.getNumArguments()))
    return wrong() << " in argument " << argument << " of " << function.getNumArguments();
  Type type = function.getArgumentTypes()[argument];
  if (dim < 0)
    return type.isIndex() || type.isSignlessInteger(64) ? success()
                                                        : LogicalResult(wrong() << " in argument " << argument << ", which is not an index but "
                                                                                << type << ": a dimension is missing");
  auto shaped = dyn_cast<ShapedType>(type);
  auto tensor = dyn_cast<MutableTensorType>(type);
  int64_t rank = tensor ? tensor.getSizes().size() : shaped && shaped.hasRank() ? shaped.getRank() : 0;
  if (dim >= rank)
    return wrong() << " in dimension " << dim << " of argument " << argument << ", which has " << rank << " of them";
  // A memref type states only that the size is dynamic.
  if (isa<MemRefType>(type) && shaped.isDynamicDim(dim))
    return success();
  Size found = shaped ? Size(shaped.getDimSize(dim)) : Size(tensor.getSizes()[dim]);
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    found = sizesOf(ranked)[dim];
  else if (tensor && tensor.getSymbolicSizes())
    found = sizesOf(Attribute(tensor.getSymbolicSizes()))[dim];
  std::string expected = ("s" + Twine(symbol.getNumber())).str();
  if (found.str() != expected)
    return wrong() << " in dimension " << dim << " of argument " << argument << ", which is " << found.str() << " in " << type;
  return success();
}

LogicalResult dynamlir::dynamo::verifySymbols(FunctionOpInterface function, Attribute value) {
  auto symbols = dyn_cast<ArrayAttr>(value);
  if (!symbols)
    return function.emitOpError() << "'dynamo.symbols' must be an array of #dynamo.symbol, got " << value;
  llvm::SmallDenseSet<int64_t> seen;
  for (Attribute attribute : symbols) {
    auto symbol = dyn_cast<SizeSymbolAttr>(attribute);
    if (!symbol)
      return function.emitOpError() << "'dynamo.symbols' must be an array of #dynamo.symbol, got " << attribute;
    if (!seen.insert(symbol.getNumber()).second)
      return function.emitOpError() << "'dynamo.symbols' declares s" << symbol.getNumber() << " twice";
    if (failed(verifyPlace(function, symbol)))
      return failure();
  }
  return verifyNamedSymbols(function);
}

LogicalResult dynamlir::dynamo::verifyNamedSymbols(FunctionOpInterface function) {
  // Operations of this dialect check themselves.
  bool failedSomewhere = false;
  function->walk([&](Operation *op) {
    if (!isa_and_nonnull<DynamoDialect>(op->getDialect()))
      failedSomewhere |= failed(verifyDeclared(op));
  });
  return failure(failedSomewhere);
}
