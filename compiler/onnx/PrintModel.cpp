#include "compiler/onnx/Model.h"

#include <charconv>
#include <sstream>

namespace pdc {

namespace {

std::string number(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

/// A name as it stands between quotes, on one line.
std::string inQuotes(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      result +=
          "\\x" + std::string(1, "0123456789abcdef"[(c >> 4) & 15]) + "0123456789abcdef"[c & 15];
    else
      result += c;
  }
  return result + '"';
}

template <typename List, typename Print> std::string joined(const List &list, Print print) {
  std::string result;
  for (const auto &entry : list)
    result += (result.empty() ? "" : ", ") + print(entry);
  return result;
}

struct PrintAttribute {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(const std::string &value) const { return inQuotes(value); }
  std::string operator()(const std::vector<int64_t> &list) const {
    return "[" + joined(list, [](int64_t value) { return std::to_string(value); }) + "]";
  }
  std::string operator()(const std::vector<double> &list) const {
    return "[" + joined(list, number) + "]";
  }
  std::string operator()(const std::vector<std::string> &list) const {
    return "[" + joined(list, inQuotes) + "]";
  }
  std::string operator()(const Tensor &tensor) const { return tensor.type.toString(); }
};

std::string sourceOf(const Initializer &initializer) {
  if (initializer.fill)
    return "filled with " + number(*initializer.fill);
  if (initializer.draw)
    return "drawn " + std::string(initializer.draw->normal ? "normal(" : "uniform(") +
           number(initializer.draw->first) + ", " + number(initializer.draw->second) + ")";
  if (initializer.file.empty())
    return "in the file";
  return "in " + inQuotes(initializer.file.filename().string()) + " at " +
         std::to_string(initializer.offset);
}

std::string lineOf(const ModelNode &node) {
  std::string line = joined(node.outputs, inQuotes) + " = " + node.op + " " + inQuotes(node.name) +
                     " (" + joined(node.inputs, inQuotes) + ")";
  if (!node.attributes.empty())
    line += " {" +
            joined(node.attributes,
                   [](const auto &entry) {
                     return entry.first + " = " + std::visit(PrintAttribute(), entry.second);
                   }) +
            "}";
  return line;
}

} // namespace

std::string typeText(const ModelValue &value) {
  std::string dimensions;
  for (const Dimension &dimension : value.shape)
    dimensions += (dimensions.empty() ? "" : ",") +
                  (dimension.value ? std::to_string(*dimension.value) : dimension.symbol);
  return std::string(toString(value.element)) + "[" + dimensions + "]";
}

std::string toString(const Model &model) {
  std::ostringstream out;
  out << "model " << inQuotes(model.name) << '\n';
  for (const ModelValue &input : model.inputs)
    out << "input " << inQuotes(input.name) << " : " << typeText(input) << '\n';
  for (const auto &[name, initializer] : model.initializers)
    out << "initializer " << inQuotes(name) << " : " << initializer.type.toString() << ", "
        << sourceOf(initializer) << '\n';
  for (const ModelNode &node : model.nodes)
    out << lineOf(node) << '\n';
  for (const ModelValue &output : model.outputs)
    out << "output " << inQuotes(output.name) << " : " << typeText(output) << '\n';
  if (const auto &training = model.training)
    out << "training: minimises " << inQuotes(training->loss) << " with " << training->optimizer
        << ", updates " << joined(training->parameters, inQuotes) << '\n';
  return out.str();
}

} // namespace pdc
