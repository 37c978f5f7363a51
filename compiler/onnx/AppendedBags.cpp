#include "compiler/onnx/BagMatch.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"

#include <algorithm>
#include <limits>

namespace pdc {

namespace {

/// Follows the body of a Loop from the row that it appends to what it begins with:
///
///     start = Slice(offsets, i, i + 1)      end = Slice(offsets, i + 1, i + 2)
///     found = Slice(rows, start, end)
///     row = If(start == end) zeros else Reduce(found)
///
/// Means and maxima have another branch for the last bag, which goes on to the end of all rows:
/// that is where PyTorch wants the last of the offsets.
class AppendedBagMatch : BagMatch {
public:
  AppendedBagMatch(const FlatNode &loop, const KnownNumbers &known, Names &values)
      : BagMatch(loop), known(known), values(values) {}

  std::optional<EmbeddingBagLoop> find() {
    // A list and a counter are carried.
    if (body.inputs.size() != 4 || body.outputs.size() != 3 || loop.proto.output_size() != 2 ||
        !loop.proto.input(0).empty() || loop.proto.input(1).empty())
      return std::nullopt;
    const bool isSecond = maker(body.outputs[2], "SequenceInsert", 2) != nullptr;
    const int list = isSecond ? 1 : 0, counter = 1 - list;
    const onnx::NodeProto *append = maker(body.outputs[1 + list], "SequenceInsert", 2);
    if (!append || append->input_size() != 2 || append->input(0) != body.inputs[2 + list])
      return std::nullopt;
    index = body.inputs[2 + counter];
    if (!countsOn(body.outputs[1 + counter]) || !readRow(append->input(1)))
      return std::nullopt;
    expected.emplace_back(loop.proto.input(1), 1);
    expected.emplace_back(loop.proto.input(2 + counter), 0);
    const std::string bags = values.fresh(loop.proto.output(list) + "/bags");
    return EmbeddingBagLoop{nodesOf(bags, loop.proto.output(counter)), std::move(expected),
                            loop.proto.input(2 + list), loop.proto.output(list), bags};
  }

private:
  /// The value of a branch for the last bag.
  struct LastBag {
    std::string value;
    bool isReduced;
  };
  /// The condition, and the values of both branches.
  struct Choice {
    std::string condition, then, otherwise;
  };
  std::optional<Choice> choiceOf(const std::string &name) const {
    const FlatNode *select = nodeOf(name);
    if (!select || !select->selects)
      return std::nullopt;
    const onnx::NodeProto &node = select->proto;
    const auto place =
        static_cast<int>(std::ranges::find(node.output(), name) - node.output().begin());
    return Choice{node.input(0), node.input(1 + place), node.input(1 + place + node.output_size())};
  }

  /// What only another element type, another name or a branch that is always taken stands before.
  std::string plain(std::string name) const {
    for (;;) {
      const onnx::NodeProto *node = maker(name);
      if (std::optional<Choice> choice = choiceOf(name)) {
        std::optional<double> condition = numberOf(choice->condition);
        if (!condition)
          return name;
        name = *condition != 0 ? choice->then : choice->otherwise;
      } else if (node && node->input_size() > 0 &&
                 (node->op_type() == "Identity" || node->op_type() == "Cast" ||
                  node->op_type() == "CastLike")) {
        name = node->input(0);
      } else {
        return name;
      }
    }
  }

  static std::optional<Tensor> tensorOf(const onnx::NodeProto &constant) {
    for (const onnx::AttributeProto &attribute : constant.attribute()) {
      if (attribute.name() == "value_int")
        return Tensor::scalar(ElementType::i64, static_cast<double>(attribute.i()));
      if (attribute.name() == "value_ints")
        return Tensor::vector({attribute.ints().begin(), attribute.ints().end()});
      if (attribute.name() == "value_floats" && attribute.floats_size() == 1)
        return Tensor::scalar(ElementType::f32, attribute.floats(0));
      if (attribute.name() == "value" && attribute.has_t()) {
        onnx::TensorProto copy = attribute.t();
        return readTensor(takeInitializer(copy, describe(constant), {}));
      }
    }
    return std::nullopt;
  }

  /// What a number is, if it is the same in all iterations.
  std::optional<double> numberOf(const std::string &name) const {
    const onnx::NodeProto *node = maker(name);
    if (!node)
      return isOutside(name) ? known(name) : std::nullopt;
    const std::string &op = node->op_type();
    if (op == "Constant") {
      std::optional<Tensor> value = tensorOf(*node);
      return value && value->data.size() == 1 ? std::optional(value->data[0]) : std::nullopt;
    }
    if (op == "Identity" || op == "Cast" || op == "CastLike")
      return numberOf(node->input(0));
    if (op != "Equal" || node->input_size() != 2 || !isFixed(node->input(0)) ||
        !isFixed(node->input(1)))
      return std::nullopt;
    std::optional<double> left = numberOf(node->input(0)), right = numberOf(node->input(1));
    return left && right ? std::optional<double>(*left == *right) : std::nullopt;
  }

  /// Asked first: what is known outside depends on what it is known by.
  bool isFixed(const std::string &name) const {
    return isOutside(name) || maker(name, "Constant", 0);
  }

  /// As the body says, or as the graph around it must say.
  bool isNumber(const std::string &given, double number) {
    const std::string name = plain(given);
    if (!isOutside(name))
      return numberOf(name) == number;
    expected.emplace_back(name, number);
    return true;
  }

  /// Whether iterations count from 0 to before a number that is known outside.
  bool countsOn(const std::string &next) {
    const onnx::NodeProto *less = maker(plain(body.outputs[0]), "Less", 2);
    if (!less || plain(less->input(0)) != plain(next) || !isAfter(next, 1))
      return false;
    count = plain(less->input(1));
    return isOutside(count);
  }

  /// Whether a number, or a vector of it alone, is so far beyond that of the iteration.
  bool isAfter(const std::string &given, double beyond) {
    const std::string name = plain(given);
    if (const onnx::NodeProto *vector = maker(name, "Reshape", 2))
      return isNumber(vector->input(1), -1) && isAfter(vector->input(0), beyond);
    if (beyond == 0)
      return name == index;
    const onnx::NodeProto *sum = maker(name, "Add", 2);
    return sum && isAfter(sum->input(0), 0) && isNumber(sum->input(1), beyond);
  }

  /// Whether it is the element of the offsets that is so far beyond that of this iteration.
  bool isBound(const std::string &given, double beyond) {
    const onnx::NodeProto *slice = maker(plain(given), "Slice", 3);
    if (!slice || slice->input_size() != 3 || !isOutside(slice->input(0)) ||
        (!offsets.empty() && slice->input(0) != offsets))
      return false;
    offsets = slice->input(0);
    return isAfter(slice->input(1), beyond) && isAfter(slice->input(2), beyond + 1);
  }

  bool readRow(const std::string &given) {
    std::optional<Choice> choice = choiceOf(plain(given));
    const onnx::NodeProto *isEmpty = choice ? maker(plain(choice->condition), "Equal", 2) : nullptr;
    const onnx::NodeProto *zeros = choice ? maker(plain(choice->then), "Expand", 2) : nullptr;
    if (!isEmpty || !isBound(isEmpty->input(0), 0) || !isBound(isEmpty->input(1), 1) || !zeros ||
        !isNumber(zeros->input(0), 0))
      return false;
    return readReduction(withoutLast(choice->otherwise, true));
  }

  /// The value of all bags but the last, where there is a branch for that; before or behind the
  /// reduction.
  std::string withoutLast(const std::string &given, bool isReduced) {
    std::optional<Choice> choice = choiceOf(plain(given));
    const onnx::NodeProto *equal = choice ? maker(plain(choice->condition), "Equal", 2) : nullptr;
    const onnx::NodeProto *last = equal ? maker(plain(equal->input(1)), "Sub", 2) : nullptr;
    if (!last || plain(equal->input(0)) != index || plain(last->input(0)) != count ||
        !isNumber(last->input(1), 1))
      return plain(given);
    lasts.push_back({choice->then, isReduced});
    return plain(choice->otherwise);
  }

  bool readReduction(const std::string &name) {
    const onnx::NodeProto *reduction = maker(name);
    if (!reduction || !readMode(*reduction) || !reducesRows(*reduction))
      return false;
    const onnx::NodeProto *slice = maker(withoutLast(reduction->input(0), false), "Slice", 3);
    if (!slice || slice->input_size() != 3 || !isOutside(slice->input(0)) ||
        !isBound(slice->input(1), 0) || !isBound(slice->input(2), 1))
      return false;
    rows = slice->input(0);
    return std::ranges::all_of(lasts, [&](const LastBag &last) {
      return last.isReduced ? dividesByTheRest(last.value) : goesToTheEnd(last.value);
    });
  }

  /// Whether it reduces rows along the first axis, and keeps that.
  bool reducesRows(const onnx::NodeProto &reduction) {
    return integerOf(reduction, "keepdims", 1) != 0 && reduction.input_size() == 2 &&
           isNumber(reduction.input(1), 0);
  }

  /// The rows from the bag's start on.
  const onnx::NodeProto *rowsFrom(const std::string &name) {
    const onnx::NodeProto *slice = maker(plain(name), "Slice", 3);
    return slice && slice->input_size() == 3 && slice->input(0) == rows &&
                   isBound(slice->input(1), 0)
               ? slice
               : nullptr;
  }

  /// What is known outside, or the shape of what is.
  bool isLength(const std::string &given) const {
    const std::string name = plain(given);
    const onnx::NodeProto *shape = maker(name, "Shape", 1);
    return isOutside(shape ? shape->input(0) : name);
  }

  bool goesToTheEnd(const std::string &value) {
    const onnx::NodeProto *slice = rowsFrom(value);
    if (!slice)
      return false;
    const std::string end = plain(slice->input(2));
    std::optional<double> number = isOutside(end) ? std::nullopt : numberOf(end);
    return isOutside(end) || (number && *number >= std::numeric_limits<int32_t>::max());
  }

  /// A mean whose divisor is how many rows there are from the start on, or the sum where there are
  /// none: the bag's own where the offsets end at the number of rows, as PyTorch wants it.
  bool dividesByTheRest(const std::string &value) {
    std::optional<Choice> choice = choiceOf(plain(value));
    const onnx::NodeProto *some = choice ? maker(plain(choice->condition), "Greater", 2) : nullptr,
                          *rest = some ? maker(plain(some->input(0)), "Sub", 2) : nullptr,
                          *mean = rest ? maker(plain(choice->then), "Div", 2) : nullptr,
                          *sum = mean ? maker(plain(mean->input(0)), "ReduceSum", 2) : nullptr,
                          *slice = sum ? rowsFrom(sum->input(0)) : nullptr;
    return mode == "mean" && slice && isBound(slice->input(2), 1) && reducesRows(*sum) &&
           plain(mean->input(1)) == plain(some->input(0)) && isNumber(some->input(1), 0) &&
           plain(choice->otherwise) == plain(mean->input(0)) && isLength(rest->input(0)) &&
           isBound(rest->input(1), 0);
  }

  /// `counted` is how often the Loop went round.
  std::vector<FlatNode> nodesOf(const std::string &bags, const std::string &counted) {
    std::vector<FlatNode> nodes;
    auto make = [&](const char *op, const std::vector<std::string> &inputs,
                    const std::string &output) -> onnx::NodeProto & {
      FlatNode &node = nodes.emplace_back(FlatNode{{}, 13, loop.stages});
      node.proto.set_op_type(op);
      for (const std::string &input : inputs)
        node.proto.add_input(input);
      node.proto.add_output(output);
      return node.proto;
    };
    auto constant = [&](int64_t value) {
      const std::string name = values.fresh(bags + "/constant");
      setIntegers(make("Constant", {}, name), "value_ints", {value});
      return name;
    };
    const std::string zero = constant(0), one = constant(1), all = constant(-1),
                      most = constant(std::numeric_limits<int64_t>::max()),
                      ends = values.fresh(bags + "/ends");
    std::string bounds = offsets;
    if (!std::ranges::all_of(lasts, &LastBag::isReduced)) {
      // The last bag ends where the rows do, unless it is empty.
      auto made = [&](const char *op, const std::vector<std::string> &inputs) {
        const std::string output = values.fresh(bags + "/" + op);
        make(op, inputs, output);
        return output;
      };
      const std::string number = made("Reshape", {count, all}),
                        begin = made("Slice", {offsets, made("Sub", {number, one}), number}),
                        end = made("Slice", {offsets, number, made("Add", {number, one})}),
                        size = made("Slice", {made("Shape", {rows}), zero, one}),
                        last = made("Where", {made("Equal", {begin, end}), end, size}),
                        others = made("Slice", {offsets, zero, number});
      bounds = values.fresh(bags + "/bounds");
      setInteger(make("Concat", {others, last}, bounds), "axis", 0);
    }
    make("Slice", {bounds, one, most}, ends);
    nodes.push_back(bag({rows, "", offsets, ends, count}, bags));
    make("Identity", {count}, counted);
    return nodes;
  }

  const KnownNumbers &known;
  Names &values;
  std::vector<LastBag> lasts;
  std::string index, count, offsets, rows;
};

} // namespace

std::optional<EmbeddingBagLoop> appendedBagsOf(const FlatNode &loop, const KnownNumbers &known,
                                               Names &values) {
  return AppendedBagMatch(loop, known, values).find();
}

} // namespace pdc
