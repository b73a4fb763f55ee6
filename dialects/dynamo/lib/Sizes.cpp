//===- Sizes.cpp - Reading, writing and computing with sizes --------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "dynamo-c/Dynamo.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dynamlir::dynamo;

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

/// Set once, before contexts exist, and only read afterwards.
static DynamoSizeCallbacks callbacks = {nullptr, nullptr};

void dynamoSetSizeCallbacks(const DynamoSizeCallbacks *given) { callbacks = *given; }

/// Converts to C strings without the C API's library, which this library does not link.
static MlirStringRef wrapText(StringRef text) { return {text.data(), text.size()}; }
static StringRef unwrapText(MlirStringRef text) { return {text.data, text.length}; }

Attribute dynamlir::dynamo::readSize(MLIRContext *context, StringRef text,
                                     function_ref<InFlightDiagnostic(size_t position)> emitError) {
  auto number = [&](int64_t value) -> Attribute {
    if (ShapedType::isDynamic(value)) {
      emitError(0) << "is not a size: " << value << " stands for `?`";
      return {};
    }
    return IntegerAttr::get(IntegerType::get(context, 64), value);
  };
  int64_t value;
  if (!text.getAsInteger(10, value))
    return number(value);
  if (!callbacks.read) {
    emitError(0) << "a size that is an expression needs the callbacks of dynamoSetSizeCallbacks";
    return {};
  }
  struct Reading {
    MLIRContext *context;
    function_ref<InFlightDiagnostic(size_t)> emitError;
    function_ref<Attribute(int64_t)> number;
    Attribute result;
  } reading{context, emitError, number, {}};
  auto take = [](const DynamoSize *size, void *data) {
    auto &reading = *static_cast<Reading *>(data);
    if (size->fault.length != 0) {
      reading.emitError(size->position) << unwrapText(size->fault);
    } else if (size->isNumber) {
      reading.result = reading.number(size->number);
    } else {
      ArrayRef<int64_t> symbols(size->symbols, size->numSymbols);
      reading.context->getOrLoadDialect<DynamoDialect>()->noteExpression();
      reading.result = ExprAttr::get(reading.context, unwrapText(size->text), symbols);
    }
  };
  callbacks.read(wrapText(text), take, &reading);
  return reading.result;
}

std::optional<bool> dynamlir::dynamo::decide(Operation *op, Size a, Relation relation, Size b) {
  if (a.isUnknown() || b.isUnknown())
    return std::nullopt;
  if (a.isNumber() && b.isNumber()) {
    int64_t left = a.getNumber(), right = b.getNumber();
    return relation == Relation::equal ? left == right : relation == Relation::less ? left < right : left <= right;
  }
  SmallVector<DynamoSymbol> symbols;
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    function = op->getParentOfType<FunctionOpInterface>();
  auto declared = function ? function->getAttrOfType<ArrayAttr>("dynamo.symbols") : ArrayAttr();
  // Errors in the declarations are reported by their own verifier.
  for (Attribute attribute : declared ? declared.getValue() : ArrayRef<Attribute>())
    if (auto symbol = dyn_cast<SizeSymbolAttr>(attribute))
      symbols.push_back({symbol.getNumber(), symbol.getArgument(), symbol.getDim(), symbol.getMin(), symbol.getMax(),
                         symbol.getDivisor(), symbol.getHint()});
  auto assumed = function ? function->getAttrOfType<StringAttr>("dynamo.assumed") : StringAttr();
  std::string left = a.str(), right = b.str();
  int32_t answer = callbacks.decide(symbols.data(), symbols.size(), wrapText(assumed ? assumed.getValue() : StringRef()),
                                    static_cast<DynamoRelation>(relation), wrapText(left), wrapText(right));
  return answer < 0 ? std::nullopt : std::optional<bool>(answer != 0);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

bool dynamlir::dynamo::isSize(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  if (!number)
    return isa<ExprAttr>(attribute);
  return number.getType().isSignlessInteger(64) && !ShapedType::isDynamic(number.getInt());
}

bool dynamlir::dynamo::isSizeArray(Attribute attribute) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(attribute);
  return numbers ? llvm::none_of(numbers.asArrayRef(), ShapedType::isDynamic) : isa<SizesAttr>(attribute);
}

Size Size::of(Attribute attribute) {
  if (!attribute)
    return ShapedType::kDynamic;
  if (auto expression = dyn_cast<ExprAttr>(attribute))
    return expression;
  return cast<IntegerAttr>(attribute).getInt();
}

std::string Size::str() const {
  if (expression)
    return expression.getText().str();
  return isNumber() ? std::to_string(number) : "?";
}

std::string dynamlir::dynamo::sizesToString(ArrayRef<Size> sizes) {
  return "[" + llvm::join(llvm::map_range(sizes, [](Size size) { return size.str(); }), ", ") + "]";
}

SizeList dynamlir::dynamo::sizesOf(ArrayRef<int64_t> numbers) { return SizeList(numbers.begin(), numbers.end()); }

SizeList dynamlir::dynamo::sizesOf(RankedTensorType type) {
  // An encoding that does not fit the type was reported when the type was created.
  auto encoding = dyn_cast_or_null<SizesAttr>(type.getEncoding());
  return encoding ? sizesOf(encoding) : sizesOf(type.getShape());
}

SizeList dynamlir::dynamo::sizesOf(Attribute array) {
  if (auto numbers = dyn_cast<DenseI64ArrayAttr>(array))
    return sizesOf(numbers.asArrayRef());
  SizeList sizes;
  for (Attribute size : cast<SizesAttr>(array).getSizes())
    sizes.push_back(Size::of(size));
  return sizes;
}

size_t dynamlir::dynamo::countSizes(Attribute array) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(array);
  return numbers ? numbers.size() : cast<SizesAttr>(array).getSizes().size();
}

/// `(a) op (b)` of expressions; nothing if the result is too large.
static std::optional<Size> compute(Size a, StringRef op, Size b) {
  if (a.isUnknown() || b.isUnknown())
    return Size(ShapedType::kDynamic);
  MLIRContext *context = (a.getExpression() ? a : b).getExpression().getContext();
  // The caller reports errors: this diagnostic is dropped and never seen.
  auto emit = [&](size_t) {
    InFlightDiagnostic dropped = emitError(UnknownLoc::get(context));
    dropped.abandon();
    return dropped;
  };
  std::string text = ("(" + a.str() + ")" + op + "(" + b.str() + ")").str();
  Attribute result = readSize(context, text, emit);
  return result ? std::optional(Size::of(result)) : std::nullopt;
}

std::optional<Size> dynamlir::dynamo::add(Size a, Size b) {
  if (!a.isNumber() || !b.isNumber())
    return compute(a, "+", b);
  int64_t sum;
  return llvm::AddOverflow(a.getNumber(), b.getNumber(), sum) ? std::nullopt : std::optional<Size>(sum);
}

std::optional<Size> dynamlir::dynamo::multiply(Size a, Size b) {
  if (!a.isNumber() || !b.isNumber())
    return compute(a, "*", b);
  int64_t product;
  return llvm::MulOverflow(a.getNumber(), b.getNumber(), product) ? std::nullopt : std::optional<Size>(product);
}

std::optional<Size> dynamlir::dynamo::multiply(ArrayRef<Size> sizes) {
  // The product is zero, however large the other sizes are.
  if (llvm::is_contained(sizes, Size(0)))
    return Size(0);
  std::optional<Size> product = Size(1);
  for (Size size : sizes)
    if (product)
      product = multiply(*product, size);
  return product;
}

std::optional<Size> dynamlir::dynamo::modulo(Size a, int64_t divisor) {
  return a.isNumber() ? Size(a.getNumber() % divisor) : compute(a, " mod ", divisor);
}

bool dynamlir::dynamo::areEqual(Operation *op, Size a, Size b) {
  if (a == b)
    return true;
  return (a.getExpression() || b.getExpression()) && decide(op, a, Relation::equal, b) == true;
}

bool dynamlir::dynamo::areEqual(Operation *op, ArrayRef<Size> a, ArrayRef<Size> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip_equal(a, b), [&](auto pair) {
           return areEqual(op, std::get<0>(pair), std::get<1>(pair));
         });
}

bool dynamlir::dynamo::haveOneShape(Operation *op, RankedTensorType a, RankedTensorType b) {
  if (!a.getEncoding() && !b.getEncoding())
    return a.getShape() == b.getShape();
  return areEqual(op, sizesOf(a), sizesOf(b));
}

bool dynamlir::dynamo::isSurelyNegative(Operation *op, Size size) { return decide(op, size, Relation::less, 0) == true; }

LogicalResult dynamlir::dynamo::verifyNotNegative(Operation *op, Twine what, ArrayRef<Size> sizes) {
  for (Size size : sizes)
    if (isSurelyNegative(op, size))
      return op->emitOpError() << "expected " << what << " not to be negative, got " << size.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Skips the characters of a size in the parser, up to its end.
static ParseResult skipSize(AsmParser &parser) {
  for (unsigned depth = 0;;) {
    StringRef word;
    APInt number;
    if (succeeded(parser.parseOptionalLParen())) {
      ++depth;
    } else if (depth != 0 && succeeded(parser.parseOptionalRParen())) {
      --depth;
    } else if (succeeded(parser.parseOptionalMinus()) || succeeded(parser.parseOptionalPlus()) ||
               succeeded(parser.parseOptionalStar()) || succeeded(parser.parseOptionalKeyword(&word)) ||
               (depth != 0 && succeeded(parser.parseOptionalComma()))) {
      continue;
    } else {
      OptionalParseResult integer = parser.parseOptionalInteger(number);
      if (!integer.has_value())
        return success();
      if (failed(*integer))
        return failure();
    }
  }
}

/// The text is taken from the parser's buffer, so that an error in it has a position.
ParseResult dynamlir::dynamo::parseSize(AsmParser &parser, Attribute &size) {
  SMLoc start = parser.getCurrentLocation();
  // Nearly all sizes are one number.
  if (llvm::isDigit(*start.getPointer())) {
    APInt number;
    OptionalParseResult parsed = parser.parseOptionalInteger(number);
    if (parsed.has_value() && failed(*parsed))
      return failure();
    bool ends = StringRef(",])>").contains(*parser.getCurrentLocation().getPointer());
    if (ends && number.getSignificantBits() <= 64) {
      size = IntegerAttr::get(IntegerType::get(parser.getContext(), 64), number.getSExtValue());
      return success();
    }
  }
  if (failed(skipSize(parser)))
    return failure();
  const char *end = parser.getCurrentLocation().getPointer();
  StringRef text = StringRef(start.getPointer(), end - start.getPointer()).rtrim();
  auto emit = [&](size_t position) {
    return parser.emitError(SMLoc::getFromPointer(start.getPointer() + std::min(position, text.size())));
  };
  size = readSize(parser.getContext(), text, emit);
  return success(static_cast<bool>(size));
}

void dynamlir::dynamo::printSize(AsmPrinter &printer, Attribute size) { printer << Size::of(size).str(); }

ParseResult dynamlir::dynamo::parseSizeArray(AsmParser &parser, Attribute &array) {
  SmallVector<Attribute> sizes;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parseSize(parser, sizes.emplace_back()); }))
    return failure();
  if (llvm::any_of(sizes, llvm::IsaPred<ExprAttr>)) {
    array = SizesAttr::get(parser.getContext(), sizes);
    return success();
  }
  SmallVector<int64_t> numbers;
  for (Attribute size : sizes)
    numbers.push_back(cast<IntegerAttr>(size).getInt());
  array = DenseI64ArrayAttr::get(parser.getContext(), numbers);
  return success();
}

void dynamlir::dynamo::printSizeArray(OpAsmPrinter &printer, Operation *, Attribute array) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(array);
  if (!numbers) {
    printer << sizesToString(sizesOf(array));
    return;
  }
  printer << "[";
  llvm::interleaveComma(numbers.asArrayRef(), printer);
  printer << "]";
}

//===----------------------------------------------------------------------===//
// #dynamo.expr<s0*4 + 1>, #dynamo.sizes<s0, 128>
//===----------------------------------------------------------------------===//

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  Attribute size;
  if (parser.parseLess() || parseSize(parser, size) || parser.parseGreater())
    return {};
  return size;
}

void ExprAttr::print(AsmPrinter &printer) const { printer << "<" << getText() << ">"; }

Attribute SizesAttr::parse(AsmParser &parser, Type) {
  SmallVector<Attribute> sizes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&] { return parseSize(parser, sizes.emplace_back()); }))
    return {};
  return parser.getChecked<SizesAttr>(loc, parser.getContext(), ArrayRef<Attribute>(sizes));
}

void SizesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getSizes(), printer, [&](Attribute size) { printSize(printer, size); });
  printer << ">";
}

LogicalResult SizesAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<Attribute> sizes) {
  for (Attribute size : sizes)
    if (!size || !isSize(size))
      return emitError() << "expected sizes that are i64 or expressions, got " << size;
  if (llvm::none_of(sizes, llvm::IsaPred<ExprAttr>))
    return emitError() << "expected an expression among the sizes: numbers stand in the shape of a tensor, or in array<i64: …>";
  return success();
}

LogicalResult SizesAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, function_ref<InFlightDiagnostic()> emitError) const {
  if (getSizes().size() != shape.size())
    return emitError() << "expected a size per dimension: " << shape.size() << " dimensions, " << *this;
  for (auto [dim, written, number] : llvm::enumerate(getSizes(), shape)) {
    Size size = Size::of(written);
    if (size.getNumber() == number)
      continue;
    if (size.getExpression())
      return emitError() << "dimension " << dim << " is " << number << " in the shape, and " << size.str() << " in " << *this
                         << ": an expression stands at a `?`";
    return emitError() << "dimension " << dim << " is " << Size(number).str() << " in the shape, and " << size.str() << " in " << *this;
  }
  return success();
}
