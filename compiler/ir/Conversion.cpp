#include "compiler/ir/Conversion.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>
#include <memory>

using namespace mlir;
using pdc::ir::LayoutAttr;

namespace pdc {

Type toMlir(MLIRContext *context, ElementType element) {
  switch (element) {
  case ElementType::f32:
    return Float32Type::get(context);
  case ElementType::f64:
    return Float64Type::get(context);
  case ElementType::f16:
    return Float16Type::get(context);
  case ElementType::bf16:
    return BFloat16Type::get(context);
  case ElementType::i64:
    return IntegerType::get(context, 64);
  case ElementType::i32:
    return IntegerType::get(context, 32);
  case ElementType::i8:
    return IntegerType::get(context, 8);
  case ElementType::u8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case ElementType::boolean:
    return IntegerType::get(context, 1);
  }
  throw Error("unknown element type");
}

std::optional<ElementType> findElementType(Type type) {
  if (type.isF32())
    return ElementType::f32;
  if (type.isF64())
    return ElementType::f64;
  if (type.isF16())
    return ElementType::f16;
  if (type.isBF16())
    return ElementType::bf16;
  if (type.isSignlessInteger(64))
    return ElementType::i64;
  if (type.isSignlessInteger(32))
    return ElementType::i32;
  if (type.isSignlessInteger(8))
    return ElementType::i8;
  if (type.isUnsignedInteger(8))
    return ElementType::u8;
  if (type.isSignlessInteger(1))
    return ElementType::boolean;
  return std::nullopt;
}

ElementType toElementType(Type type) {
  if (std::optional<ElementType> element = findElementType(type))
    return *element;
  throw Error("an element type that pdc does not know");
}

RankedTensorType toMlir(MLIRContext *context, const TensorType &type, StringRef layout) {
  mlir::Attribute encoding;
  if (!layout.empty())
    encoding = LayoutAttr::get(context, layout);
  return RankedTensorType::get(type.shape, toMlir(context, type.element), encoding);
}

TensorType toTensorType(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !ranked.hasStaticShape())
    throw Error("a tensor without static shape; run infer-shapes first");
  return {toElementType(ranked.getElementType()), ranked.getShape().vec()};
}

StringRef layoutOf(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  auto layout = ranked ? dyn_cast_or_null<LayoutAttr>(ranked.getEncoding()) : LayoutAttr();
  return layout ? layout.getTag() : StringRef();
}

RankedTensorType withLayout(Type type, StringRef layout) {
  auto ranked = cast<RankedTensorType>(type);
  mlir::Attribute encoding;
  if (!layout.empty())
    encoding = LayoutAttr::get(type.getContext(), layout);
  return RankedTensorType::get(ranked.getShape(), ranked.getElementType(), encoding);
}

/// Kernels take a subnormal number for zero, which log(mask + 1e-45) is not to see: constants that
/// are not zero stay so.
static float toNormal(double value) {
  const auto nearest = static_cast<float>(value);
  return std::fpclassify(nearest) == FP_SUBNORMAL
             ? std::copysign(std::numeric_limits<float>::min(), nearest)
             : nearest;
}

/// The elements as numbers of one C++ type: an attribute per element would take as long as all
/// else.
template <class Number>
static DenseElementsAttr toElements(RankedTensorType type, const Tensor &tensor) {
  const size_t count = tensor.data.size();
  auto numbers = std::make_unique<Number[]>(count);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Number, float>)
      numbers[i] = toNormal(tensor.data[i]);
    else if constexpr (std::is_floating_point_v<Number>)
      numbers[i] = static_cast<Number>(tensor.data[i]);
    else if constexpr (std::is_same_v<Number, bool>)
      numbers[i] = toInteger(tensor.data[i]) & 1;
    else
      numbers[i] = static_cast<Number>(toInteger(tensor.data[i]));
  }
  return DenseElementsAttr::get(type, ArrayRef<Number>(numbers.get(), count));
}

/// Elements of a type that C++ has no numbers of.
static DenseElementsAttr toHalves(RankedTensorType type, const Tensor &tensor) {
  SmallVector<mlir::Attribute> elements;
  elements.reserve(tensor.data.size());
  for (double value : tensor.data)
    elements.push_back(FloatAttr::get(type.getElementType(), value));
  return DenseElementsAttr::get(type, elements);
}

DenseElementsAttr toMlir(MLIRContext *context, const Tensor &tensor) {
  RankedTensorType type = toMlir(context, tensor.type);
  switch (tensor.type.element) {
  case ElementType::f32:
    return toElements<float>(type, tensor);
  case ElementType::f64:
    return toElements<double>(type, tensor);
  case ElementType::f16:
  case ElementType::bf16:
    return toHalves(type, tensor);
  case ElementType::i64:
    return toElements<int64_t>(type, tensor);
  case ElementType::i32:
    return toElements<int32_t>(type, tensor);
  case ElementType::i8:
    return toElements<int8_t>(type, tensor);
  case ElementType::u8:
    return toElements<uint8_t>(type, tensor);
  case ElementType::boolean:
    return toElements<bool>(type, tensor);
  }
  throw Error("unknown element type");
}

template <class Number> static std::vector<double> numbersOf(DenseElementsAttr elements) {
  if (elements.isSplat())
    return std::vector<double>(elements.getNumElements(),
                               static_cast<double>(elements.getSplatValue<Number>()));
  std::vector<double> numbers;
  numbers.reserve(elements.getNumElements());
  for (Number value : elements.getValues<Number>())
    numbers.push_back(static_cast<double>(value));
  return numbers;
}

static std::vector<double> halvesOf(DenseElementsAttr elements) {
  std::vector<double> numbers;
  numbers.reserve(elements.getNumElements());
  for (APFloat value : elements.getValues<APFloat>()) {
    bool lost = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    numbers.push_back(value.convertToDouble());
  }
  return numbers;
}

static std::vector<double> numbersOf(DenseElementsAttr elements, ElementType element) {
  switch (element) {
  case ElementType::f32:
    return numbersOf<float>(elements);
  case ElementType::f64:
    return numbersOf<double>(elements);
  case ElementType::f16:
  case ElementType::bf16:
    return halvesOf(elements);
  case ElementType::i64:
    return numbersOf<int64_t>(elements);
  case ElementType::i32:
    return numbersOf<int32_t>(elements);
  case ElementType::i8:
    return numbersOf<int8_t>(elements);
  case ElementType::u8:
    return numbersOf<uint8_t>(elements);
  case ElementType::boolean:
    return numbersOf<bool>(elements);
  }
  throw Error("unknown element type");
}

Tensor toTensor(DenseElementsAttr elements) {
  constexpr int64_t most = 1 << 26;
  if (elements.getNumElements() > most)
    throw Error("a constant has " + std::to_string(elements.getNumElements()) +
                " elements, expected at most " + std::to_string(most) +
                "; larger values are memories");
  TensorType type = toTensorType(elements.getType());
  return {type, numbersOf(elements, type.element)};
}

namespace {
struct AttributeToMlir {
  MLIRContext *context;
  using Result = mlir::Attribute;
  Result operator()(int64_t value) {
    return IntegerAttr::get(IntegerType::get(context, 64), value);
  }
  Result operator()(double value) { return FloatAttr::get(Float64Type::get(context), value); }
  Result operator()(const std::string &value) { return StringAttr::get(context, value); }
  Result operator()(const std::vector<int64_t> &v) { return DenseI64ArrayAttr::get(context, v); }
  Result operator()(const std::vector<double> &v) { return DenseF64ArrayAttr::get(context, v); }
  Result operator()(const std::vector<std::string> &values) {
    SmallVector<Result> strings;
    for (const std::string &value : values)
      strings.push_back(StringAttr::get(context, value));
    return ArrayAttr::get(context, strings);
  }
  Result operator()(const Tensor &tensor) { return toMlir(context, tensor); }
};
} // namespace

mlir::Attribute toMlir(MLIRContext *context, const Attribute &attribute) {
  return std::visit(AttributeToMlir{context}, attribute);
}

DictionaryAttr toMlir(MLIRContext *context, const Attributes &attributes) {
  NamedAttrList list;
  for (const auto &[name, value] : attributes)
    list.append(name, toMlir(context, value));
  return list.getDictionary(context);
}

static Attribute toAttribute(StringRef name, mlir::Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isSignlessInteger(1) ? int64_t(integer.getValue().getZExtValue())
                                                  : integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.str();
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(attribute))
    return integers.asArrayRef().vec();
  if (auto numbers = dyn_cast<DenseF64ArrayAttr>(attribute))
    return numbers.asArrayRef().vec();
  if (auto elements = dyn_cast<DenseElementsAttr>(attribute))
    return toTensor(elements);
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    std::vector<std::string> strings;
    for (mlir::Attribute element : array)
      if (auto text = dyn_cast<StringAttr>(element))
        strings.push_back(text.str());
    if (strings.size() == array.size())
      return strings;
  }
  throw Error("attribute '" + name.str() + "' has a kind that a node cannot hold");
}

Attributes toAttributes(DictionaryAttr dictionary) {
  Attributes attributes;
  for (NamedAttribute entry : dictionary)
    attributes.set(entry.getName().str(), toAttribute(entry.getName(), entry.getValue()));
  return attributes;
}

} // namespace pdc
