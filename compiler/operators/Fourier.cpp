#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <cmath>
#include <numbers>
#include <numeric>

/// DFT (opset 17 and 20), STFT and windows (17). Transforms are products with matrices of sines and
/// cosines, which have gradients and fast kernels; long ones are made of shorter ones (Cooley and
/// Tukey, 1965).
namespace pdc {

namespace {

/// Of the matrices that are kept as they are.
constexpr int64_t kMostElements = int64_t(1) << 26;
/// What is longer is divided where it can be.
constexpr int64_t kLongest = 512;

/// e^(2 pi i turns / length), of whole turns by their remainder.
struct Turn {
  double cosine, sine;
  Turn(int64_t turns, int64_t length) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(turns % length) / static_cast<double>(length);
    cosine = std::cos(angle), sine = std::sin(angle);
  }
};

/// Transforms of rows [rows, samples, 1 or 2] of real or complex numbers.
class Fourier {
public:
  Fourier(CompositionBuilder &b, ElementType element, bool inverse)
      : b(b), element(element), inverse(inverse) {}

  /// [rows, frequencies, 2]: all of them, or those that tell all of a real signal. Samples beyond
  /// `length` are left out, missing ones are zeros. Not scaled.
  NodeValue spectrum(NodeValue x, int64_t length, bool isOnesided) const {
    const int64_t frequencies = isOnesided ? length / 2 + 1 : length;
    if (const int64_t first = divisorOf(length))
      return resized(divided(resized(x, length), first, length / first), frequencies);
    return direct(x, length, frequencies);
  }

  /// [rows, length, 1]: the real signal of the frequencies that tell all of it.
  NodeValue signal(NodeValue x, int64_t length) const {
    const int64_t frequencies = length / 2 + 1;
    if (divisorOf(length)) {
      NodeValue all = spectrum(mirrored(resized(x, frequencies), length), length, false);
      return add(b, "Slice", {all, ends({0}), ends({1}), ends({2})});
    }
    const int64_t given = std::min(b.type(x).shape[1], frequencies);
    Tensor matrix = matrixOf(2 * given, length);
    for (int64_t k = 0; k < given; ++k)
      for (int64_t n = 0; n < length; ++n) {
        const Turn turn(k * n, length);
        const double twice = k == 0 || 2 * k == length ? 1 : 2;
        matrix.data[2 * k * length + n] = twice * turn.cosine;
        matrix.data[(2 * k + 1) * length + n] = -twice * turn.sine;
      }
    return product(resized(x, given), std::move(matrix), {length, 1});
  }

  /// The samples at the front, with zeros behind them where there are fewer.
  NodeValue resized(NodeValue x, int64_t length) const {
    const TensorType type = b.type(x);
    if (type.shape[1] > length)
      return add(b, "Slice", {x, ends({0}), ends({length}), ends({1})});
    if (type.shape[1] == length)
      return x;
    TensorType zeros = type;
    zeros.shape[1] = length - type.shape[1];
    return add(b, "Concat", {x, b.constant(Tensor::zeros(zeros))}, {{"axis", int64_t(1)}});
  }

private:
  NodeValue ends(const std::vector<int64_t> &values) const {
    return b.constant(Tensor::vector(values));
  }

  /// 0 where the transform is one product: it is short, or has a length that is prime.
  static int64_t divisorOf(int64_t length) {
    if (length <= kLongest)
      return 0;
    auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
    while (length % divisor)
      --divisor;
    return divisor > 1 ? divisor : 0;
  }

  Tensor matrixOf(int64_t rows, int64_t columns) const {
    if (rows > kMostElements / columns)
      b.refuse("a transform by a matrix of " + std::to_string(rows) + " x " +
               std::to_string(columns) +
               " numbers is too large; choose a length that is a product of small numbers");
    return Tensor::zeros({element, {rows, columns}});
  }

  NodeValue product(NodeValue x, Tensor matrix, std::vector<int64_t> shape) const {
    const int64_t rows = b.type(x).shape[0];
    NodeValue flat = reshaped(b, x, {rows, matrix.type.shape[0]});
    shape.insert(shape.begin(), rows);
    return reshaped(b, add(b, "MatMul", {flat, b.constant(std::move(matrix))}), shape);
  }

  NodeValue direct(NodeValue x, int64_t length, int64_t frequencies) const {
    const int64_t samples = std::min(b.type(x).shape[1], length), parts = b.type(x).shape[2];
    Tensor matrix = matrixOf(samples * parts, 2 * frequencies);
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t k = 0; k < frequencies; ++k) {
        const Turn turn(k * n, length);
        const double sine = inverse ? turn.sine : -turn.sine;
        double *real = &matrix.data[(n * parts * frequencies + k) * 2];
        real[0] = turn.cosine, real[1] = sine;
        if (parts == 2) {
          double *imaginary = real + 2 * frequencies;
          imaginary[0] = -sine, imaginary[1] = turn.cosine;
        }
      }
    return product(resized(x, samples), std::move(matrix), {frequencies, 2});
  }

  /// Sample second * p + q and frequency k + first * l: transforms of `first` samples each, turned
  /// by q * k, then transforms of `second`.
  NodeValue divided(NodeValue x, int64_t first, int64_t second) const {
    const int64_t rows = b.type(x).shape[0], parts = b.type(x).shape[2], length = first * second;
    NodeValue inner = transposed(b, reshaped(b, x, {rows, first, second, parts}), {0, 2, 1, 3});
    inner = spectrum(reshaped(b, inner, {rows * second, first, parts}), first, false);
    inner = turned(reshaped(b, inner, {rows, second, first, 2}), length);
    inner = reshaped(b, transposed(b, inner, {0, 2, 1, 3}), {rows * first, second, 2});
    NodeValue outer = reshaped(b, spectrum(inner, second, false), {rows, first, second, 2});
    return reshaped(b, transposed(b, outer, {0, 2, 1, 3}), {rows, length, 2});
  }

  /// Number [q, k] of each row times e^(2 pi i q k / length).
  NodeValue turned(NodeValue x, int64_t length) const {
    const std::vector<int64_t> shape = b.type(x).shape;
    Tensor cosines = Tensor::zeros({element, {shape[1], shape[2], 1}}),
           sines = Tensor::zeros({element, {shape[1], shape[2], 2}});
    for (int64_t q = 0; q < shape[1]; ++q)
      for (int64_t k = 0; k < shape[2]; ++k) {
        const Turn turn(q * k, length);
        const double sine = inverse ? turn.sine : -turn.sine;
        const int64_t at = q * shape[2] + k;
        cosines.data[at] = turn.cosine;
        sines.data[2 * at] = -sine, sines.data[2 * at + 1] = sine;
      }
    NodeValue exchanged = add(b, "Gather", {x, ends({1, 0})}, {{"axis", int64_t(3)}});
    return add(b, "Add",
               {add(b, "Mul", {x, b.constant(std::move(cosines))}),
                add(b, "Mul", {exchanged, b.constant(std::move(sines))})});
  }

  /// All frequencies of a real signal: the second half are the conjugates of the first.
  NodeValue mirrored(NodeValue x, int64_t length) const {
    std::vector<int64_t> places(length);
    Tensor signs = Tensor::zeros({element, {length, 2}});
    for (int64_t k = 0; k < length; ++k) {
      const bool isMirrored = k > length / 2, isReal = k == 0 || 2 * k == length;
      places[k] = isMirrored ? length - k : k;
      signs.data[2 * k] = 1;
      signs.data[2 * k + 1] = isReal ? 0 : isMirrored ? -1 : 1;
    }
    NodeValue all = add(b, "Gather", {x, ends(places)}, {{"axis", int64_t(1)}});
    return add(b, "Mul", {all, b.constant(std::move(signs))});
  }

  CompositionBuilder &b;
  const ElementType element;
  const bool inverse;
};

int64_t numberOf(CompositionBuilder &b, size_t input, const char *name) {
  const std::vector<int64_t> values = knownIntegers(b, input);
  if (values.size() != 1)
    b.refuse("input " + std::to_string(input) + " (" + name + ") is " +
             b.type(b.input(input)).toString() + ", expected one integer");
  return values[0];
}

/// Real numbers have a last dimension of 1, complex ones of 2.
void requireParts(CompositionBuilder &b, const TensorType &x, bool isReal, bool isComplex) {
  const int64_t parts = x.rank() > 0 ? x.shape.back() : 0;
  if (x.rank() < 2 || !((parts == 1 && isReal) || (parts == 2 && isComplex)))
    b.refuse("input " + x.toString() + ", expected a last dimension of " +
             (isReal && isComplex ? "1 (real numbers) or 2 (complex ones)"
              : isReal            ? "1: real numbers"
                                  : "2: complex numbers"));
}

std::vector<NodeValue> composeDft(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0));
  const bool inverse = b.attributes().integer("inverse", 0) != 0,
             isOnesided = b.attributes().integer("onesided", 0) != 0;
  requireParts(b, x, !(isOnesided && inverse), !isOnesided || inverse);
  const int64_t given = b.input(2) ? numberOf(b, 2, "axis") : -2;
  const int64_t axis = given < 0 ? given + x.rank() : given;
  if (axis < 0 || axis > x.rank() - 2)
    b.refuse("axis " + std::to_string(given) + " is no dimension of samples of input " +
             x.toString());
  const bool isSignal = isOnesided && inverse;
  const int64_t length = b.input(1) ? numberOf(b, 1, "dft_length")
                         : isSignal ? 2 * (x.shape[axis] - 1)
                                    : x.shape[axis];
  if (length < 1 || x.shape[axis] < 1)
    b.refuse("a transform of " + std::to_string(x.shape[axis]) + " samples to " +
             std::to_string(length) + ", expected one at least");

  // 1. The samples stand last, before real and imaginary part.
  std::vector<int64_t> order(x.rank()), back(x.rank()), shape = x.shape;
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + axis);
  order.insert(order.end() - 1, axis);
  shape.erase(shape.begin() + axis);
  shape.pop_back();
  for (int64_t i = 0; i < x.rank(); ++i)
    back[order[i]] = i;
  const int64_t rows = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  NodeValue samples =
      reshaped(b, transposed(b, b.input(0), order), {rows, x.shape[axis], x.shape.back()});

  // 2. They are transformed, and go back.
  const Fourier fourier(b, x.element, inverse);
  NodeValue found =
      isSignal ? fourier.signal(samples, length) : fourier.spectrum(samples, length, isOnesided);
  if (inverse)
    found = add(b, "Mul", {found, number(b, x.element, 1 / static_cast<double>(length))});
  const std::vector<int64_t> ends = b.type(found).shape;
  shape.insert(shape.end(), ends.begin() + 1, ends.end());
  return {transposed(b, reshaped(b, found, shape), back)};
}

/// Axis 1 is the default of opset 17, where it is an attribute.
void normaliseDft(ImportedNode &node, int opset) {
  if (opset >= 20)
    return;
  setInput(node, 2,
           node.addConstant(Tensor::scalar(
               ElementType::i64, static_cast<double>(node.attributes.integer("axis", 1)))));
  node.attributes.erase("axis");
}

std::vector<NodeValue> composeStft(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0));
  const bool isOnesided = b.attributes().integer("onesided", 1) != 0;
  requireParts(b, x, true, !isOnesided);
  const int64_t step = numberOf(b, 1, "frame_step");
  const int64_t length = b.input(3)   ? numberOf(b, 3, "frame_length")
                         : b.input(2) ? b.type(b.input(2)).elementCount()
                                      : x.shape[1];
  if (x.rank() != 3 || step < 1 || length < 1 || length > x.shape[1])
    b.refuse("frames of " + std::to_string(length) + " samples, every " + std::to_string(step) +
             ", of a signal " + x.toString() +
             ", expected [batch, samples, 1 or 2] and no more than there are");
  if (b.input(2) && b.type(b.input(2)).elementCount() != length)
    b.refuse("window " + b.type(b.input(2)).toString() + " for frames of " +
             std::to_string(length) + " samples, expected one number each");

  const int64_t frames = (x.shape[1] - length) / step + 1;
  Tensor places = Tensor::zeros({ElementType::i64, {frames, length}});
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t i = 0; i < length; ++i)
      places.data[frame * length + i] = static_cast<double>(frame * step + i);
  NodeValue samples =
      add(b, "Gather", {b.input(0), b.constant(std::move(places))}, {{"axis", int64_t(1)}});
  if (b.input(2))
    samples = add(b, "Mul", {samples, reshaped(b, b.input(2), {length, 1})});
  const int64_t rows = x.shape[0] * frames;
  NodeValue found =
      Fourier(b, x.element, false)
          .spectrum(reshaped(b, samples, {rows, length, x.shape[2]}), length, isOnesided);
  return {reshaped(b, found, {x.shape[0], frames, b.type(found).shape[1], 2})};
}

/// Of ONNX's windows: constant - first cos(2 pi n / N) + second cos(4 pi n / N).
struct Cosines {
  double constant, first, second;
};

std::vector<NodeValue> composeWindow(CompositionBuilder &b, const Cosines &weights) {
  const int64_t size = numberOf(b, 0, "size");
  if (size < 1)
    b.refuse("a window of " + std::to_string(size) + " numbers, expected one at least");
  const int64_t period =
      std::max<int64_t>(b.attributes().integer("periodic", 1) ? size : size - 1, 1);
  Tensor window = Tensor::zeros({ElementType::f32, {size}});
  for (int64_t n = 0; n < size; ++n)
    window.data[n] = weights.constant - weights.first * Turn(n, period).cosine +
                     weights.second * Turn(2 * n, period).cosine;
  const int64_t type = b.attributes().integer("output_datatype", onnxType(ElementType::f32));
  return {add(b, "Cast", {b.constant(std::move(window))}, {{"to", type}})};
}

std::vector<NodeValue> composeHann(CompositionBuilder &b) {
  return composeWindow(b, {0.5, 0.5, 0});
}

std::vector<NodeValue> composeHamming(CompositionBuilder &b) {
  return composeWindow(b, {25.0 / 46, 21.0 / 46, 0});
}

std::vector<NodeValue> composeBlackman(CompositionBuilder &b) {
  return composeWindow(b, {0.42, 0.5, 0.08});
}

Operator windowNamed(const char *name) {
  return {.name = name,
          .firstOpset = 17,
          .lastOpset = kLastOpset,
          .inputs = {{.name = "size", .known = true}},
          .outputs = {{"output"}}};
}

} // namespace

std::span<const ComposedOperator> fourierForms() {
  static const ComposedOperator operators[] = {
      {windowNamed("BlackmanWindow"), composeBlackman},
      {windowNamed("HammingWindow"), composeHamming},
      {windowNamed("HannWindow"), composeHann},
      {{.name = "DFT",
        .firstOpset = 17,
        .lastOpset = kLastOpset,
        .inputs = {{"input"},
                   {.name = "dft_length", .optional = true, .known = true},
                   {.name = "axis", .optional = true, .known = true}},
        .outputs = {{"output"}},
        .elements = floatElements(),
        .normalise = normaliseDft},
       composeDft},
      {{.name = "STFT",
        .firstOpset = 17,
        .lastOpset = kLastOpset,
        .inputs = {{"signal"},
                   {.name = "frame_step", .known = true},
                   {.name = "window", .optional = true},
                   {.name = "frame_length", .optional = true, .known = true}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeStft},
  };
  return operators;
}

} // namespace pdc
