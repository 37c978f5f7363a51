#include "compiler/plan/Profile.h"

#include "compiler/Error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

namespace pdc {

namespace {

/// One node line, as written: milliseconds, bytes.
struct Node {
  std::string name, text;
  double forward = 0, backward = 0, activation = 0, parameters = 0;
  std::vector<int> producers, consumers; ///< in the order of the edge lines
  bool removed = false;
};

class Reader {
public:
  Reader(std::string_view text, const std::string &file) : text(text), file(file) {}
  std::vector<Node> read();

private:
  [[noreturn]] void refuse(const std::string &problem) const {
    throw Error(file + ":" + std::to_string(line) + ": " + problem);
  }
  void readNode(const std::string &content);
  void readEdge(const std::string &content);
  double amount(const std::string &field, const std::string &name) const;
  double number(const std::string &word, const std::string &name) const;

  std::string_view text;
  const std::string &file;
  int line = 0;
  std::vector<Node> nodes;
  std::map<std::string, int> numbers;
};

std::vector<std::string> split(const std::string &content, const std::string &separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end; (end = content.find(separator, start)) != std::string::npos;
       start = end + separator.size())
    parts.push_back(content.substr(start, end - start));
  parts.push_back(content.substr(start));
  return parts;
}

double Reader::number(const std::string &word, const std::string &name) const {
  double value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  // 4 TB, or as many milliseconds: sums stay exact.
  if (error != std::errc() || end != word.data() + word.size() || !(value >= 0) || value > 4.4e12)
    refuse(name + ": expected a number from 0 to 4.4e12, found '" + word.substr(0, 40) + "'");
  return value;
}

/// "name=1.5", or "name=[1; 2]" for the sum of several outputs.
double Reader::amount(const std::string &field, const std::string &name) const {
  if (!field.starts_with(name + "="))
    refuse("expected " + name + "=..., found '" + field.substr(0, 40) + "'");
  std::string value = field.substr(name.size() + 1);
  if (!value.starts_with("["))
    return number(value, name);
  if (!value.ends_with("]"))
    refuse(name + ": expected ']' at the end of '" + value.substr(0, 40) + "'");
  double sum = 0;
  for (const std::string &part : split(value.substr(1, value.size() - 2), "; "))
    sum += number(part, name);
  return sum;
}

void Reader::readNode(const std::string &content) {
  std::vector<std::string> fields = split(content, " -- ");
  if (fields.size() < 3 || fields.size() > 4)
    refuse("expected 'node -- operator -- costs', found '" + content.substr(0, 60) + "'");
  std::vector<std::string> costs = split(fields[2], ", ");
  if (costs.size() != 4)
    refuse("expected forward_compute_time, backward_compute_time, activation_size and "
           "parameter_size, found '" +
           fields[2].substr(0, 60) + "'");
  Node node;
  node.name = fields[0];
  node.text = fields[1];
  node.forward = amount(costs[0], "forward_compute_time");
  node.backward = amount(costs[1], "backward_compute_time");
  node.activation = amount(costs[2], "activation_size");
  node.parameters = amount(costs[3], "parameter_size");
  if (!numbers.emplace(node.name, static_cast<int>(nodes.size())).second)
    refuse("two nodes have the name '" + node.name + "'");
  nodes.push_back(std::move(node));
}

void Reader::readEdge(const std::string &content) {
  std::vector<std::string> ends = split(content, " -- ");
  if (ends.size() != 2)
    refuse("expected 'node -- node', found '" + content.substr(0, 60) + "'");
  int found[2];
  for (int end = 0; end < 2; ++end) {
    auto position = numbers.find(ends[end]);
    if (position == numbers.end())
      refuse("no node line above has the name '" + ends[end].substr(0, 60) + "'");
    found[end] = position->second;
  }
  nodes[found[0]].consumers.push_back(found[1]);
  nodes[found[1]].producers.push_back(found[0]);
}

std::vector<Node> Reader::read() {
  std::istringstream lines{std::string(text)};
  for (std::string content; std::getline(lines, content);) {
    ++line;
    while (!content.empty() && std::isspace(static_cast<unsigned char>(content.back())))
      content.pop_back();
    if (content.empty())
      continue;
    if (content[0] == '\t')
      readEdge(content.substr(1));
    else
      readNode(content);
  }
  return std::move(nodes);
}

void remove(std::vector<Node> &nodes, size_t which) {
  nodes[which].removed = true;
  for (Node &other : nodes) {
    std::erase(other.producers, static_cast<int>(which));
    std::erase(other.consumers, static_cast<int>(which));
  }
}

/// Data loading belongs to no stage, and an output nobody reads is no work.
void removeInputsAndUnusedOutputs(std::vector<Node> &nodes) {
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].producers.empty() && nodes[i].text.starts_with("Input"))
      remove(nodes, i);
  std::vector<size_t> unused;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!nodes[i].removed && nodes[i].consumers.empty() && nodes[i].text.starts_with("__getitem__"))
      unused.push_back(i);
  for (size_t i : unused)
    remove(nodes, i);
}

/// Depth first from the first source on: a branch ends before the next begins.
std::vector<int> topologicalOrder(const std::vector<Node> &nodes, const std::string &file) {
  std::vector<size_t> waiting;
  std::vector<int> ready, order;
  size_t expected = 0;
  for (const Node &node : nodes) {
    waiting.push_back(node.producers.size());
    expected += !node.removed;
  }
  for (int i = static_cast<int>(nodes.size()) - 1; i >= 0; --i)
    if (waiting[i] == 0 && !nodes[i].removed)
      ready.push_back(i);
  while (!ready.empty()) {
    int node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (auto next = nodes[node].consumers.rbegin(); next != nodes[node].consumers.rend(); ++next)
      if (--waiting[*next] == 0)
        ready.push_back(*next);
  }
  if (order.size() == expected)
    return order;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] && !nodes[i].removed)
      throw Error(file + ": node '" + nodes[i].name + "' is on a cycle or behind one");
  return order;
}

} // namespace

bool isPipeDreamProfile(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] == '{' || text[first] == '[')
    return false;
  return text.substr(0, text.find('\n', first)).find(" -- ") != std::string_view::npos;
}

Profile parsePipeDreamProfile(std::string_view text, const std::string &file) {
  std::vector<Node> nodes = Reader(text, file).read();
  removeInputsAndUnusedOutputs(nodes);
  std::vector<int> order = topologicalOrder(nodes, file);
  if (order.empty())
    throw Error(file + ": expected at least one node that is no Input");
  Profile profile;
  profile.model = file;
  profile.device = "";
  std::vector<int> position(nodes.size());
  for (size_t i = 0; i < order.size(); ++i)
    position[order[i]] = static_cast<int>(i);
  for (int which : order) {
    const Node &node = nodes[which];
    PlanUnit unit;
    unit.name = node.name;
    unit.nodes = {node.name};
    unit.forwardSeconds = node.forward / 1000;
    unit.backwardInputSeconds = node.backward / 1000;
    unit.parameterBytes = unit.gradientBytes = std::llround(node.parameters);
    unit.stashBytes = std::llround(node.activation);
    PlanValue value{node.name, position[which], {}, unit.stashBytes};
    for (int consumer : node.consumers)
      value.consumers.push_back(position[consumer]);
    std::ranges::sort(value.consumers);
    profile.graph.units.push_back(std::move(unit));
    addGradientsOf(value, profile.graph);
    profile.graph.values.push_back(std::move(value));
  }
  setTemporaries(profile.graph);
  return profile;
}

} // namespace pdc
