#include "compiler/report/Drawings.h"
#include "compiler/report/Html.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace pdc {

namespace {

/// How nodes are drawn: boxes with names where there are few, dots else.
struct NodeStyle {
  bool named;
  double column, row; ///< pixels from node to node
  int columns;        ///< layers in a line of the drawing
};

constexpr double kGraphWidth = 1092;
constexpr NodeStyle kBoxes{true, 156, 40, 7}, kDots{false, 21, 19, 52},
    kSmallDots{false, 12, 12, 91};
constexpr double kBoxWidth = 136, kBoxHeight = 26;

const NodeStyle &styleOf(const PlanGraph &graph) {
  return graph.units.size() <= 42 ? kBoxes : graph.units.size() <= 1200 ? kDots : kSmallDots;
}

class GraphDrawing {
public:
  GraphDrawing(const Plan &plan, const PlanGraph &graph)
      : plan(plan), graph(graph), stages(graph.units.size()), style(styleOf(graph)) {
    findStages();
    layOut();
  }
  std::string draw() const;

private:
  struct Place {
    int layer = 0, lane = 0;
    double x = 0, y = 0;
  };
  void findStages();
  void layOut();
  void placeLines();
  int lineOf(int unit) const { return places[unit].layer / style.columns; }
  std::string edges(bool crossing) const;
  std::string node(int unit) const;

  const Plan &plan;
  const PlanGraph &graph;
  std::vector<int> stages;
  NodeStyle style;
  std::vector<Place> places;
  double height = 0, heaviest = 0;
};

double work(const PlanUnit &unit) {
  return unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds;
}

void GraphDrawing::findStages() {
  std::unordered_map<std::string, int> known;
  for (const PlanStage &stage : plan.stages)
    for (const std::string &unit : stage.units)
      known[unit] = stage.id;
  for (size_t i = 0; i < stages.size(); ++i) {
    stages[i] = known[graph.units[i].name];
    heaviest = std::max(heaviest, work(graph.units[i]));
  }
}

/// A unit's layer is one behind the last of those it reads; its lane is that of the first of those,
/// or the next that is free: what goes on behind branches goes on in the lane in front of them.
void GraphDrawing::layOut() {
  places.resize(stages.size());
  std::vector<std::vector<int>> sources(stages.size());
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers)
      sources[consumer].push_back(value.producer);
  std::map<int, std::vector<int>> layers;
  for (size_t unit = 0; unit < places.size(); ++unit) {
    Place &place = places[unit];
    for (int source : sources[unit]) {
      const Place &other = places[source];
      place.lane = place.layer ? std::min(place.lane, other.lane) : other.lane;
      place.layer = std::max(place.layer, other.layer + 1);
    }
    std::vector<int> &lanes = layers[place.layer];
    while (std::ranges::find(lanes, place.lane) != lanes.end())
      ++place.lane;
    lanes.push_back(place.lane);
  }
  placeLines();
}

/// Each line of the drawing has room for its own lanes.
void GraphDrawing::placeLines() {
  std::map<int, std::pair<int, int>> lanes; ///< by line: the first and the last
  for (const Place &place : places) {
    auto [line, isNew] = lanes.try_emplace(place.layer / style.columns, place.lane, place.lane);
    auto &[first, last] = line->second;
    first = std::min(first, place.lane);
    last = std::max(last, place.lane);
  }
  std::map<int, double> tops; ///< by line: where its lane 0 would be
  for (auto [line, range] : lanes) {
    tops[line] = height - range.first * style.row;
    height += (range.second - range.first + 1 + 0.6) * style.row;
  }
  for (Place &place : places) {
    place.x = (place.layer % style.columns + 0.5) * style.column;
    place.y = tops[place.layer / style.columns] + (place.lane + 0.5) * style.row;
  }
}

/// One path for all edges of a kind; where the drawing goes on in another line, stubs at its ends.
std::string GraphDrawing::edges(bool crossing) const {
  std::string path;
  double reach = style.named ? kBoxWidth / 2 : 3;
  auto point = [](double x, double y) { return coordinate(x) + " " + coordinate(y); };
  auto bulge = [&](const Place &from, const Place &to) {
    return from.y == to.y ? 0.8 * style.row : 0;
  };
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers) {
      if ((stages[value.producer] != stages[consumer]) != crossing)
        continue;
      const Place &from = places[value.producer], &to = places[consumer];
      double left = from.x + reach, right = to.x - reach, middle = (left + right) / 2;
      if (lineOf(value.producer) != lineOf(consumer))
        path += "M" + point(left, from.y) + "h" + coordinate(style.column - 2 * reach) + "M" +
                point(right, to.y) + "h" + coordinate(-(style.column - 2 * reach));
      else if (from.y == to.y && to.layer == from.layer + 1)
        path += "M" + point(left, from.y) + "H" + coordinate(right);
      else // over the units between, where both stand in one lane
        path += "M" + point(left, from.y) + "C" + point(middle, from.y - bulge(from, to)) + " " +
                point(middle, to.y - bulge(from, to)) + " " + point(right, to.y);
    }
  return std::string("<path class=\"") + (crossing ? "cut" : "edge") + "\" d=\"" + path + "\"/>\n";
}

std::string GraphDrawing::node(int number) const {
  const PlanUnit &unit = graph.units[number];
  const Place &place = places[number];
  std::string colour = "style=\"" + stageColour(stages[number]) + "\"";
  std::string title = "<title>" + htmlText(unit.name, 60) + ": stage " +
                      std::to_string(stages[number]) + ", " + secondsText(work(unit)) + "</title>";
  if (!style.named) {
    double share = heaviest > 0 ? work(unit) / heaviest : 0;
    double radius = style.column * (0.16 + 0.28 * std::sqrt(share));
    return "<circle " + colour + " cx=\"" + coordinate(place.x) + "\" cy=\"" + coordinate(place.y) +
           "\" r=\"" + coordinate(radius) + "\">" + title + "</circle>\n";
  }
  return "<g>" + title + "<rect " + colour + " x=\"" + coordinate(place.x - kBoxWidth / 2) +
         "\" y=\"" + coordinate(place.y - kBoxHeight / 2) + "\" width=\"" + coordinate(kBoxWidth) +
         "\" height=\"" + coordinate(kBoxHeight) + "\" rx=\"5\"/><text class=\"in\" x=\"" +
         coordinate(place.x) + "\" y=\"" + coordinate(place.y + 4) + "\">" +
         htmlText(unit.name, 20) + "</text></g>\n";
}

std::string GraphDrawing::draw() const {
  std::string text =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"unit graph\">"
      "<svg role=\"img\" aria-label=\"" +
      std::to_string(graph.units.size()) + " units in " + std::to_string(plan.stages.size()) +
      " stages\" width=\"" + coordinate(kGraphWidth) + "\" height=\"" + coordinate(height) + "\">\n" +
      edges(false) + edges(true) + "<g class=\"units\">\n";
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    text += node(static_cast<int>(unit));
  return text + "</g></svg></div>\n";
}

} // namespace

std::string drawGraph(const Plan &plan, const PlanGraph &graph) {
  return GraphDrawing(plan, graph).draw();
}

const char *readGraph(const PlanGraph &graph) {
  return styleOf(graph).named ? "The pointer on a box shows what it takes"
                              : "Larger dots take longer";
}

} // namespace pdc
