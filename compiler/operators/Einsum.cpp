#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <map>

/// Einsum: the operands are multiplied from the left, two at a time, each time as one batched matrix
/// product; what nobody needs any more is summed as soon as possible.
namespace pdc {

namespace {

/// A value and the label of each of its dimensions. The dimensions of an ellipsis are '0', '1', ...
/// from the last one.
struct Labelled {
  NodeValue value;
  std::string labels;
  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;

  explicit Equation(CompositionBuilder &b) {
    std::string text = b.attributes().string("equation", "");
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    for (size_t comma; (comma = left.find(',')) != std::string::npos; left.erase(0, comma + 1))
      operands.push_back(left.substr(0, comma));
    operands.push_back(left);
    if (operands.size() != b.inputCount())
      b.refuse("equation '" + text + "' is one of " + std::to_string(operands.size()) +
               " operands, found " + std::to_string(b.inputCount()));
    size_t widest = 0;
    for (size_t i = 0; i < operands.size(); ++i)
      widest = std::max(widest, spellOut(b, operands[i], b.type(b.input(i)).shape.size()));
    result = arrow == std::string::npos ? implied(widest) : text.substr(arrow + 2);
    if (size_t dots = result.find("..."); dots != std::string::npos)
      result.replace(dots, 3, ellipsis(widest));
  }

private:
  static std::string ellipsis(size_t count) {
    std::string labels;
    for (size_t i = count; i-- > 0;)
      labels += static_cast<char>('0' + i);
    return labels;
  }
  /// Puts labels in place of an ellipsis; returns how many.
  static size_t spellOut(CompositionBuilder &b, std::string &labels, size_t rank) {
    size_t dots = labels.find("..."), named = labels.size() - (dots == std::string::npos ? 0 : 3);
    if (named > rank || (dots == std::string::npos && named != rank) || rank - named > 9)
      b.refuse("'" + labels + "' does not name the dimensions of an operand of rank " +
               std::to_string(rank));
    if (dots != std::string::npos)
      labels.replace(dots, 3, ellipsis(rank - named));
    return rank - named;
  }
  /// Without an arrow: the ellipsis, and what stands once, in alphabetical order.
  std::string implied(size_t widest) const {
    std::map<char, int> counts;
    for (const std::string &operand : operands)
      for (char label : operand)
        if (!std::isdigit(static_cast<unsigned char>(label)))
          ++counts[label];
    std::string labels = ellipsis(widest);
    for (auto [label, count] : counts)
      if (count == 1)
        labels += label;
    return labels;
  }
};

class Contraction {
public:
  Contraction(CompositionBuilder &b, const Equation &equation) : b(b), equation(equation) {
    for (size_t i = 0; i < equation.operands.size(); ++i) {
      terms.push_back({b.input(i), equation.operands[i]});
      noteSizes(terms.back());
    }
  }

  NodeValue run() {
    for (Labelled &term : terms)
      term = diagonal(term);
    Labelled product = terms[0];
    for (size_t i = 1; i < terms.size(); ++i)
      product = multiplied(summed(product, i), summedAlone(i, product), i + 1);
    product = summed(product, terms.size());
    return expandedTo(ordered(product, equation.result), equation.result);
  }

private:
  int64_t sizeOf(char label) const { return sizes.at(label); }

  void noteSizes(const Labelled &term) {
    std::vector<int64_t> shape = b.type(term.value).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t &size = sizes.try_emplace(term.labels[d], 1).first->second;
      if (size != 1 && shape[d] != 1 && size != shape[d])
        b.refuse("label '" + std::string(1, term.labels[d]) + "' names dimensions of " +
                 std::to_string(size) + " and " + std::to_string(shape[d]));
      size = std::max(size, shape[d]);
    }
  }

  /// Whether an operand from `next` on or the result has the label.
  bool isNeeded(char label, size_t next) const {
    if (equation.result.find(label) != std::string::npos)
      return true;
    for (size_t i = next; i < terms.size(); ++i)
      if (terms[i].has(label))
        return true;
    return false;
  }

  /// A label that stands twice: all but the diagonal is zero, then one of both is summed away.
  Labelled diagonal(Labelled term) {
    for (size_t d = 0; d < term.labels.size(); ++d)
      for (size_t other = d + 1; other < term.labels.size(); ++other)
        if (term.labels[d] == term.labels[other]) {
          std::vector<int64_t> shape(term.labels.size(), 1);
          const int64_t size = sizeOf(term.labels[d]);
          shape[d] = shape[other] = size;
          Tensor eye = Tensor::zeros({b.type(term.value).element, shape});
          for (int64_t i = 0; i < size; ++i)
            eye.data[i * (size + 1)] = 1;
          NodeValue kept = add(b, "Mul", {term.value, b.constant(std::move(eye))});
          std::string labels = term.labels;
          labels.erase(other, 1);
          return diagonal({sum(kept, {static_cast<int64_t>(other)}), labels});
        }
    return term;
  }

  NodeValue sum(NodeValue value, const std::vector<int64_t> &axes) {
    return add(b, "ReduceSum", {value, b.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
  }

  /// Without the labels that nobody from operand `next` on needs.
  Labelled summed(const Labelled &term, size_t next) {
    std::vector<int64_t> axes;
    std::string labels;
    for (size_t d = 0; d < term.labels.size(); ++d)
      if (isNeeded(term.labels[d], next))
        labels += term.labels[d];
      else
        axes.push_back(static_cast<int64_t>(d));
    return axes.empty() ? term : Labelled{sum(term.value, axes), labels};
  }

  /// Operand i without the labels that neither `left` nor anyone behind it has.
  Labelled summedAlone(size_t i, const Labelled &left) {
    std::vector<int64_t> axes;
    std::string labels;
    const Labelled &term = terms[i];
    for (size_t d = 0; d < term.labels.size(); ++d)
      if (left.has(term.labels[d]) || isNeeded(term.labels[d], i + 1))
        labels += term.labels[d];
      else
        axes.push_back(static_cast<int64_t>(d));
    return axes.empty() ? term : Labelled{sum(term.value, axes), labels};
  }

  /// In this order of labels.
  NodeValue ordered(const Labelled &term, const std::string &labels) {
    std::vector<int64_t> order;
    for (char label : labels)
      order.push_back(static_cast<int64_t>(term.labels.find(label)));
    if (std::find(order.begin(), order.end(), -1) != order.end())
      b.refuse("the result has a label that no operand has");
    return transposed(b, term.value, order);
  }

  /// Dimensions of size 1 that an ellipsis broadcasts become whole.
  NodeValue expandedTo(NodeValue value, const std::string &labels) {
    std::vector<int64_t> shape;
    for (char label : labels)
      shape.push_back(sizeOf(label));
    if (b.type(value).shape == shape)
      return value;
    return add(b, "Expand", {value, b.constant(Tensor::vector(shape))});
  }

  NodeValue asMatrices(const Labelled &term, const std::string &batch, const std::string &rows,
                       const std::string &columns) {
    std::string all = batch + rows + columns;
    auto count = [&](const std::string &labels) {
      int64_t elements = 1;
      for (char label : labels)
        elements *= sizeOf(label);
      return elements;
    };
    return reshaped(b, expandedTo(ordered(term, all), all),
                    {count(batch), count(rows), count(columns)});
  }

  /// [batch, left, common] times [batch, common, right].
  Labelled multiplied(const Labelled &left, const Labelled &right, size_t next) {
    std::string batch, common, onlyLeft, onlyRight;
    for (char label : left.labels)
      (!right.has(label) ? onlyLeft : isNeeded(label, next) ? batch : common) += label;
    for (char label : right.labels)
      if (!left.has(label))
        onlyRight += label;
    NodeValue product = add(b, "MatMul",
                            {asMatrices(left, batch, onlyLeft, common),
                             asMatrices(right, batch, common, onlyRight)});
    std::string labels = batch + onlyLeft + onlyRight;
    std::vector<int64_t> shape;
    for (char label : labels)
      shape.push_back(sizeOf(label));
    return {reshaped(b, product, shape), labels};
  }

  CompositionBuilder &b;
  const Equation &equation;
  std::vector<Labelled> terms;
  std::map<char, int64_t> sizes;
};

std::vector<NodeValue> composeEinsum(CompositionBuilder &b) {
  Equation equation(b);
  return {Contraction(b, equation).run()};
}

} // namespace

std::span<const ComposedOperator> einsumForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Einsum",
        .firstOpset = 12,
        .lastOpset = kLastOpset,
        .inputs = {{"inputs", false, true}},
        .outputs = {{"output"}},
        .elements = numberElements()},
       composeEinsum},
  };
  return operators;
}

} // namespace pdc
