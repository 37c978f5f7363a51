#include "compiler/onnx/Scans.h"

#include "compiler/Error.h"
#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/NodeAttributes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace pdc {

bool hasScannedBody(const onnx::NodeProto &node, int64_t opset) {
  const onnx::AttributeProto *body = attributeOf(node, "body");
  return node.op_type() == "Scan" && opset >= 9 && body && body->has_g();
}

namespace {

class ScanRewriting {
public:
  ScanRewriting(const onnx::NodeProto &scan, const Renaming &rename)
      : scan(scan), rename(rename), body(attributeOf(scan, "body")->g()),
        scanned(static_cast<int>(
            std::clamp<int64_t>(integerOf(scan, "num_scan_inputs", 0), 0, scan.input_size() + 1))),
        states(scan.input_size() - scanned) {
    for (const onnx::NodeProto &node : body.node())
      own.insert(node.output().begin(), node.output().end());
    if (scanned < 1 || states < 0 || body.input_size() != scan.input_size() ||
        body.output_size() < states || scan.output_size() > body.output_size())
      refuse("its body has " + std::to_string(body.input_size()) + " inputs and " +
             std::to_string(body.output_size()) + " outputs, the node " +
             std::to_string(scan.input_size()) + ", of which it scans " + std::to_string(scanned) +
             ", and " + std::to_string(scan.output_size()) + ", which do not fit");
  }

  ScanAsLoop run() {
    result.loop.set_op_type("Loop");
    result.loop.set_name(scan.name());
    result.loop.add_input(length());
    result.loop.add_input("");
    *looped.mutable_name() = body.name();
    index = addBodyInput();
    const std::string goesOn = addBodyInput();
    for (int i = 0; i < states; ++i) {
      result.loop.add_input(scan.input(i));
      *looped.add_input() = body.input(i);
    }
    for (int i = 0; i < scanned; ++i)
      readElement(i);
    looped.mutable_node()->MergeFrom(body.node());
    *looped.mutable_initializer() = body.initializer();
    *looped.mutable_sparse_initializer() = body.sparse_initializer();
    looped.add_output()->set_name(goesOn);
    for (int i = 0; i < body.output_size(); ++i) {
      *looped.add_output() = body.output(i);
      const std::string output = i < scan.output_size() ? scan.output(i) : "";
      result.loop.add_output(i < states || output.empty() ? output : stacked(i - states, output));
    }
    onnx::AttributeProto &attribute = *result.loop.add_attribute();
    attribute.set_name("body");
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = std::move(looped);
    return std::move(result);
  }

private:
  [[noreturn]] void refuse(const std::string &what) const {
    throw Error(describe(scan) + ": " + what);
  }

  std::string addBodyInput() {
    looped.add_input()->set_name(inBody("step"));
    return looped.input(looped.input_size() - 1).name();
  }

  /// A name that the body has not.
  std::string inBody(const char *what) const {
    std::string name = rename(scan.name() + "/" + what);
    while (own.contains(name))
      name = rename(name);
    return name;
  }

  int64_t listed(const char *attribute, int place) const {
    const onnx::AttributeProto *list = attributeOf(scan, attribute);
    return list && place < list->ints_size() ? list->ints(place) : 0;
  }

  onnx::NodeProto node(const char *op, const std::vector<std::string> &inputs,
                       const std::string &output) const {
    onnx::NodeProto made;
    made.set_op_type(op);
    made.set_name(scan.name() + "/" + op);
    for (const std::string &input : inputs)
      made.add_input(input);
    made.add_output(output);
    return made;
  }

  /// A value before the Loop.
  std::string made(const char *op, const std::vector<std::string> &inputs) {
    result.before.push_back(node(op, inputs, rename(scan.name() + "/" + op)));
    return result.before.back().output(0);
  }

  std::string number(int64_t value) {
    const std::string name = made("Constant", {});
    setInteger(result.before.back(), "value_int", value);
    return name;
  }

  std::string vectorOf(int64_t value) {
    const std::string name = made("Constant", {});
    setIntegers(result.before.back(), "value_ints", {value});
    return name;
  }

  /// How often the body is repeated.
  std::string length() {
    const std::string shape = made("Shape", {scan.input(states)});
    return made("Gather", {shape, number(listed("scan_input_axes", 0))});
  }

  /// Element i of what is scanned, or the i-th from the end. The tensor gets a name that the body
  /// cannot have.
  void readElement(int place) {
    const std::string whole = made("Identity", {scan.input(states + place)});
    std::string at = index;
    if (listed("scan_input_directions", place) != 0) {
      if (last.empty())
        last = made("Sub", {result.loop.input(0), number(1)});
      at = inBody("from the end");
      *looped.add_node() = node("Sub", {last, index}, at);
    }
    onnx::NodeProto &gather = *looped.add_node();
    gather = node("Gather", {whole, at}, body.input(states + place).name());
    setInteger(gather, "axis", listed("scan_input_axes", place));
  }

  /// What the Loop stacks along the first axis, the first iteration first, where it becomes the
  /// output by other nodes.
  std::string stacked(int place, const std::string &output) {
    const bool isTurned = listed("scan_output_directions", place) != 0;
    const int64_t axis = listed("scan_output_axes", place);
    std::string name = output;
    if (axis != 0)
      result.after.insert(result.after.begin(), moved(states + place, axis, name));
    if (isTurned) {
      const std::string end = vectorOf(std::numeric_limits<int64_t>::min()),
                        minusOne = vectorOf(-1), first = vectorOf(0),
                        stack = rename(output + "/stack");
      result.after.insert(result.after.begin(),
                          node("Slice", {stack, minusOne, end, first, minusOne}, name));
      name = stack;
    }
    return name;
  }

  /// Transposes the stack, whose name becomes `name`.
  onnx::NodeProto moved(int place, int64_t axis, std::string &name) {
    const onnx::TypeProto &type = body.output(place).type();
    if (!type.has_tensor_type() || !type.tensor_type().has_shape())
      refuse("its output '" + name + "' is stacked along axis " + std::to_string(axis) +
             ", and output '" + body.output(place).name() +
             "' of its body says no shape; export the model with shapes");
    const int64_t rank = type.tensor_type().shape().dim_size() + 1;
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
      refuse("its output '" + name + "' of rank " + std::to_string(rank) + " has no axis " +
             std::to_string(axis));
    const std::string stack = rename(name + "/stack");
    onnx::NodeProto transpose = node("Transpose", {stack}, name);
    std::vector<int64_t> perm(static_cast<size_t>(rank - 1));
    std::iota(perm.begin(), perm.end(), 1);
    perm.insert(perm.begin() + axis, 0);
    setIntegers(transpose, "perm", perm);
    name = stack;
    return transpose;
  }

  const onnx::NodeProto &scan;
  const Renaming &rename;
  const onnx::GraphProto &body;
  const int scanned, states;
  onnx::GraphProto looped;
  std::set<std::string> own; ///< what the body's nodes make
  std::string index, last;
  ScanAsLoop result;
};

} // namespace

ScanAsLoop loopOfScan(const onnx::NodeProto &scan, const Renaming &rename) {
  return ScanRewriting(scan, rename).run();
}

} // namespace pdc
