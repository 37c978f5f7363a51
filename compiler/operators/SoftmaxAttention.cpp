#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Dropout.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

/// Softmax attention kept whole: y = dropout(softmax(scale q k^T + mask)) v for each head. Of the
/// scores nothing is kept but the logarithm of the sum of each row's exponentials, from which the
/// gradient computes them again.
///
/// Attributes: `scale`; `is_causal` with `past`: query i sees keys up to i + past; `rows_first`,
/// four numbers for queries, keys, values and results: 0 where they are [batch, heads, rows,
/// width], 1 where rows come before heads, 2 where they are [rows, batch, heads, width]; `ratio`
/// and `key`, as Dropout has them, with input random. Heads of keys and values serve groups of
/// neighbouring heads of queries. A row whose scores are all minus infinity has shares of 0, and
/// infinity for its logarithm, as PyTorch's scaled_dot_product_attention has it; `is_guarded` says
/// that such rows may be, so that no kernel may take that for what cannot happen. Samples take
/// `masks` in turn, as windows of images do, where that is given and not 0.
///
/// Without V, K has the heads of keys and those of values behind one another; without K and V, Q
/// has the heads of all three, `key_heads` of keys and as many of values. So do the gradients, of
/// which the mask's is the last.

namespace {

constexpr size_t kMask = 3, kRandom = 4, kGradMask = 6, kGradRandom = 7;

/// The reference: one row of scores at a time.
class Reference {
public:
  Reference(const NodeView &node, std::span<const Tensor *const> inputs, size_t first, size_t mask)
      : shape(node, first, mask), attributes(node.attributes), q(*inputs[first]),
        k(*inputs[first + shape.tensorOf(1)]), v(*inputs[first + shape.tensorOf(2)]),
        mask(given(inputs, mask)) {
    if (const Tensor *random = given(inputs, mask + 1)) {
      numbers = random->toIntegers();
      headsOfSample = shape.batch * shape.heads / attributes.integer("samples", 1);
    }
  }

  struct Row {
    std::vector<double> shares, kept; ///< kept: 0 where dropped, else 1 / (1 - ratio)
    double logSum;
  };

  Row row(int64_t b, int64_t h, int64_t i) const {
    Row row{std::vector<double>(shape.keys, 0), std::vector<double>(shape.keys, 1), 0};
    const int64_t end = AttentionShape::visible(attributes, i, shape.keys);
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < end; ++j)
      most = std::max(most, row.shares[j] = score(b, h, i, j));
    if (isUnseen(row.shares, end)) {
      std::fill(row.shares.begin(), row.shares.end(), 0);
      row.logSum = std::numeric_limits<double>::infinity();
      return row;
    }
    for (int64_t j = 0; j < end; ++j)
      sum += row.shares[j] = std::exp(row.shares[j] - most);
    for (int64_t j = 0; j < end; ++j)
      row.shares[j] /= sum;
    row.logSum = most + std::log(sum);
    drop(row.kept, b, h, i);
    return row;
  }

  size_t at(size_t operand, int64_t b, int64_t h, int64_t row, int64_t d) const {
    const bool isKey = operand == 1 || operand == 2;
    const int64_t head = isKey ? h * shape.keyHeads / shape.heads : h;
    return shape.offset(operand, b, head) + row * shape.rowStride(operand) + d;
  }
  double scale() const { return attributes.number("scale", 1); }

  const AttentionShape shape;
  const Attributes &attributes;
  const Tensor &q, &k, &v;

private:
  static bool isUnseen(const std::vector<double> &scores, int64_t end) {
    return std::all_of(scores.begin(), scores.begin() + end, [](double score) {
      return score == -std::numeric_limits<double>::infinity();
    });
  }
  static const Tensor *given(std::span<const Tensor *const> inputs, size_t i) {
    return i < inputs.size() ? inputs[i] : nullptr;
  }

  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double product = 0;
    for (int64_t d = 0; d < shape.width; ++d)
      product += q.data[at(0, b, h, i, d)] * k.data[at(1, b, h, j, d)];
    if (!mask)
      return scale() * product;
    const double element = mask->data[offsetOf({shape.maskOf(b), h, i, j}, shape.maskStrides)];
    if (mask->type.element != ElementType::boolean)
      return scale() * product + element;
    return element != 0 ? scale() * product : -std::numeric_limits<double>::infinity();
  }

  void drop(std::vector<double> &kept, int64_t b, int64_t h, int64_t i) const {
    if (numbers.empty())
      return;
    const double ratio = attributes.number("ratio", 0.5);
    const uint32_t threshold = dropoutThreshold(ratio);
    const auto key = static_cast<uint64_t>(attributes.integer("key", 0));
    const int64_t head = b * shape.heads + h;
    const int64_t row = head % headsOfSample * shape.queries + i;
    for (int64_t j = 0; j < shape.keys; ++j) {
      const uint32_t bits = dropoutBits(numbers[0], numbers[1], numbers[2 + head / headsOfSample],
                                        key, row * shape.keys + j);
      kept[j] = bits >= threshold ? 1 / (1 - ratio) : 0;
    }
  }

  const Tensor *mask;
  std::vector<int64_t> numbers;
  int64_t headsOfSample = 1;
};

void checkRandom(const NodeView &node, size_t random, const AttentionShape &shape) {
  if (!node.hasInput(random))
    return;
  const double ratio = node.attributes.number("ratio", 0.5);
  const TensorType &type = node.input(random);
  if (!(ratio >= 0 && ratio < 1) || type.rank() != 1 || type.shape[0] < 3)
    refuse(node, "ratio is " + std::to_string(ratio) + " and random numbers are " +
                     type.toString() +
                     ", expected at least 0 and below 1, and seed, step and one number per sample");
  const int64_t samples = node.attributes.integer("samples", 1), heads = shape.batch * shape.heads;
  if (samples < 1 || samples > type.shape[0] - 2 || heads % samples != 0)
    refuse(node, std::to_string(heads) + " heads of " + std::to_string(samples) +
                     " samples and random numbers " + type.toString() +
                     ", expected as many heads of each, and seed, step and one number per sample");
}

std::vector<TensorType> inferAttention(const NodeView &node) {
  AttentionShape shape(node, 0, kMask);
  checkRandom(node, kRandom, shape);
  const ElementType element = node.input(0).element;
  return {{element, shape.result()}, {sumElement(element), shape.perRow()}};
}

std::vector<Tensor> evaluateAttention(const NodeView &node, std::span<const Tensor *const> inputs) {
  Reference r(node, inputs, 0, kMask);
  std::vector<TensorType> types = inferAttention(node);
  Tensor y = Tensor::zeros(types[0]), logSums = Tensor::zeros(types[1]);
  std::vector<int64_t> index(3);
  for (int64_t row = 0; row < logSums.type.elementCount();
       ++row, advance(index, r.shape.perRow())) {
    const auto [b, h, i] = std::tuple(index[0], index[1], index[2]);
    Reference::Row scores = r.row(b, h, i);
    logSums.data[row] = scores.logSum;
    for (int64_t j = 0; j < r.shape.keys; ++j)
      for (int64_t d = 0; d < r.shape.valueWidth; ++d)
        y.data[r.at(3, b, h, i, d)] +=
            scores.shares[j] * scores.kept[j] * r.v.data[r.at(2, b, h, j, d)];
  }
  return {y, logSums};
}

void differentiateAttention(GradientBuilder &b) {
  if (b.outputGradient(1))
    throw Error("the sums of an attention's exponentials have no gradient");
  auto optional = [&](size_t i) { return i < b.inputCount() ? b.input(i) : GradientValue(); };
  const bool wantsMask = optional(kMask) && b.wants(kMask);
  const size_t tensors = !optional(1) ? 1 : !optional(2) ? 2 : 3;
  std::vector<GradientValue> gradients =
      b.node("SoftmaxAttentionGrad",
             {b.outputGradient(0), b.input(0), optional(1), optional(2), b.output(0), b.output(1),
              optional(kMask), optional(kRandom)},
             b.attributes(), wantsMask ? tensors + 1 : tensors);
  for (size_t i = 0; i < tensors; ++i)
    if (b.wants(i))
      b.setInputGradient(i, gradients[i]);
  if (wantsMask)
    b.setInputGradient(kMask, reducedTo(b, gradients[tensors], b.type(b.input(kMask)).shape));
}

/// The mask's gradient is summed over the samples that have the same.
std::vector<TensorType> inferGradient(const NodeView &node) {
  AttentionShape shape(node, 1, kGradMask);
  checkRandom(node, kGradRandom, shape);
  std::vector<TensorType> types;
  for (size_t tensor = 0; tensor < shape.tensors(); ++tensor)
    types.push_back(node.input(1 + tensor));
  if (node.outputCount <= types.size() || !node.hasInput(kGradMask))
    return types;
  types.push_back({node.input(kGradMask).element,
                   {shape.maskGradients(), shape.heads, shape.queries, shape.keys}});
  return types;
}

/// With shares p, kept factors m and g = m dy v^T: ds = p (g - sum(p g)), from which dq = scale ds
/// k, dk = scale ds^T q, dv = (m p)^T dy.
std::vector<Tensor> evaluateGradient(const NodeView &node, std::span<const Tensor *const> inputs) {
  Reference r(node, inputs, 1, kGradMask);
  const Tensor &dy = *inputs[0];
  std::vector<Tensor> results;
  for (const TensorType &type : inferGradient(node))
    results.push_back(Tensor::zeros(type));
  std::vector<int64_t> index(3);
  const AttentionShape &s = r.shape;
  do {
    const auto [b, h, i] = std::tuple(index[0], index[1], index[2]);
    Reference::Row row = r.row(b, h, i);
    std::vector<double> g(s.keys, 0);
    double sum = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      for (int64_t d = 0; d < s.valueWidth; ++d) {
        const double gradient = row.kept[j] * dy.data[r.at(3, b, h, i, d)];
        g[j] += gradient * r.v.data[r.at(2, b, h, j, d)];
        results[s.tensorOf(2)].data[r.at(2, b, h, j, d)] += row.shares[j] * gradient;
      }
      sum += row.shares[j] * g[j];
    }
    for (int64_t j = 0; j < s.keys; ++j) {
      const double ds = row.shares[j] * (g[j] - sum);
      for (int64_t d = 0; d < s.width; ++d) {
        results[0].data[r.at(0, b, h, i, d)] += r.scale() * ds * r.k.data[r.at(1, b, h, j, d)];
        results[s.tensorOf(1)].data[r.at(1, b, h, j, d)] +=
            r.scale() * ds * r.q.data[r.at(0, b, h, i, d)];
      }
      if (results.size() > s.tensors())
        results.back().data[((b % s.maskGradients() * s.heads + h) * s.queries + i) * s.keys + j] +=
            ds;
    }
  } while (advance(index, s.perRow()));
  return results;
}

/// Scores that are computed, and products of two sizes over them.
Cost costOfProducts(const NodeView &node, const AttentionShape &shape,
                    std::span<const TensorType> outputs, double width, double valueWidth) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    cost.bytes += type.bytes();
  double pairs = 0;
  for (int64_t i = 0; i < shape.queries; ++i)
    pairs += AttentionShape::visible(node.attributes, i, shape.keys);
  pairs *= shape.batch * shape.heads;
  // A score's exponential and what else is done to it takes about 20.
  cost.flops = pairs * (2 * width * shape.width + 2 * valueWidth * shape.valueWidth + 20);
  return cost;
}

Cost costForward(const NodeView &node, std::span<const TensorType> outputs) {
  return costOfProducts(node, AttentionShape(node, 0, kMask), outputs, 1, 1);
}

Cost costBackward(const NodeView &node, std::span<const TensorType> outputs) {
  return costOfProducts(node, AttentionShape(node, 1, kGradMask), outputs, 3, 2);
}

} // namespace

std::span<const Operator> softmaxAttentionOperators() {
  static const Operator operators[] = {
      {.name = "SoftmaxAttention",
       .inputs = {{"Q"}, {"K", true}, {"V", true}, {"mask", true}, {"random", true}},
       .outputs = {{"Y"}, {"LogSumExp", true}},
       .elements = floatElements(),
       .infer = inferAttention,
       .evaluate = evaluateAttention,
       .differentiate = differentiateAttention,
       .cost = costForward},
      {.name = "SoftmaxAttentionGrad",
       .inputs = {{"dY"},
                  {"Q"},
                  {"K", true},
                  {"V", true},
                  {"Y"},
                  {"LogSumExp"},
                  {"mask", true},
                  {"random", true}},
       .outputs = {{"dQ"}, {"dK", true}, {"dV", true}, {"dMask", true}},
       .elements = floatElements(),
       .infer = inferGradient,
       .evaluate = evaluateGradient,
       .cost = costBackward},
  };
  return operators;
}

} // namespace pdc
