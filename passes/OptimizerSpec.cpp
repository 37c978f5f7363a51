#include "passes/OptimizerSpec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace pdc {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A setting, its default and the half-open range it may have.
struct Setting {
  StringRef key;
  double value;
  double limit = kInfinity;
};

struct Kind {
  StringRef name;
  std::vector<Setting> settings;
};

/// PyTorch's settings and defaults, and what ONNX's optimizers say otherwise: the number that the
/// first update counts as, Adam's epsilon outside of the bias correction, its decay of the result.
/// ONNX Runtime's AdamW may decay last, what the update made.
const std::vector<Kind> &kinds() {
  static const std::vector<Kind> table = {
      {"sgd", {{"lr", 0.01}, {"weight_decay", 0}, {"momentum", 0, 1}, {"dampening", 0}}},
      {"momentum",
       {{"lr", 0.01},
        {"weight_decay", 0},
        {"momentum", 0.9, 1},
        {"dampening", 0},
        {"first_step", 1}}},
      {"nesterov",
       {{"lr", 0.01},
        {"weight_decay", 0},
        {"momentum", 0.9, 1},
        {"dampening", 0},
        {"first_step", 1}}},
      {"adagrad",
       {{"lr", 0.01},
        {"weight_decay", 0},
        {"lr_decay", 0},
        {"epsilon", 1e-10},
        {"initial_accumulator", 0},
        {"first_step", 1}}},
      {"adam",
       {{"lr", 0.001},
        {"weight_decay", 0},
        {"beta1", 0.9, 1},
        {"beta2", 0.999, 1},
        {"epsilon", 1e-8},
        {"first_step", 1},
        {"scaled_epsilon", 0},
        {"post_decay", 0, 1}}},
      {"adamw",
       {{"lr", 0.001},
        {"weight_decay", 0.01},
        {"beta1", 0.9, 1},
        {"beta2", 0.999, 1},
        {"epsilon", 1e-8},
        {"first_step", 1},
        {"scaled_epsilon", 0},
        {"decay_last", 0}}},
      // As in Algorithm 2 of You et al. (2020), PyTorch has none.
      {"lamb",
       {{"lr", 0.001},
        {"weight_decay", 0.01},
        {"beta1", 0.9, 1},
        {"beta2", 0.999, 1},
        {"epsilon", 1e-6},
        {"first_step", 1}}},
  };
  return table;
}

template <class Range, class Name> std::string listed(const Range &range, Name name) {
  std::string text;
  for (const auto &element : range)
    text += (text.empty() ? "" : ", ") + name(element).str();
  return text;
}

const Kind &findKind(StringRef name) {
  for (const Kind &kind : kinds())
    if (kind.name == name)
      return kind;
  std::string names = listed(kinds(), [](const Kind &kind) { return kind.name; });
  throw Error("unknown optimizer '" + name.str() + "'; choose one of " + names);
}

/// `key=value` into the settings of its kind.
void apply(const Kind &kind, std::vector<Setting> &settings, StringRef assignment) {
  auto [key, text] = assignment.split('=');
  auto found =
      find_if(settings, [key = key](const Setting &setting) { return setting.key == key; });
  if (found == settings.end())
    throw Error("optimizer '" + kind.name.str() + "' has no setting '" + key.str() + "'; it has " +
                listed(settings, [](const Setting &setting) { return setting.key; }));
  double value = 0;
  if (text.empty() || text.getAsDouble(value))
    throw Error("setting '" + key.str() + "' of optimizer '" + kind.name.str() +
                "' expects a number, found '" + text.str() + "'");
  if (!(value >= 0 && value < found->limit))
    throw Error("setting '" + key.str() + "' of optimizer '" + kind.name.str() + "' is " +
                text.str() + ", expected at least 0 and " +
                (found->limit == 1 ? std::string("below 1") : std::string("finite")));
  found->value = value;
}

} // namespace

ScaledRate parseScaledRate(std::string_view text) {
  auto [pattern, number] = StringRef(text).rsplit('=');
  double factor = 0;
  if (pattern.empty() || number.getAsDouble(factor) || !(factor >= 0 && std::isfinite(factor)))
    throw Error("'" + std::string(text) +
                "' is no scale of a learning rate; expected PATTERN=F with F at least 0 and "
                "finite, as in encoder.*=0.1");
  return {pattern.str(), factor};
}

OptimizerSpec parseOptimizer(std::string_view text) {
  SmallVector<StringRef> parts;
  StringRef(text).split(parts, ',');
  const Kind &kind = findKind(parts.front());
  std::vector<Setting> settings = kind.settings;
  for (StringRef assignment : drop_begin(parts))
    apply(kind, settings, assignment);
  auto value = [&](StringRef key) {
    for (const Setting &setting : settings)
      if (setting.key == key)
        return setting.value;
    return 0.0;
  };
  /// Left out where it is the default, so that sources stay short.
  auto setRare = [&](OptimizerSpec &spec, const char *key) {
    for (auto [setting, usual] : llvm::zip(settings, kind.settings))
      if (setting.key == key && setting.value != usual.value)
        spec.attributes.set(key, setting.value);
  };

  OptimizerSpec spec{kind.name.str(), value("lr"), "SgdUpdate", {}, value("weight_decay"), {}, 0};
  if (kind.name == "adagrad") {
    spec.op = "AdagradUpdate";
    for (const char *key : {"epsilon", "lr_decay"})
      spec.attributes.set(key, value(key));
    spec.states = {"sum"};
    spec.initialState = value("initial_accumulator");
    setRare(spec, "first_step");
  } else if (kind.name.starts_with("adam") || kind.name == "lamb") {
    spec.scalesByNorms = kind.name == "lamb";
    spec.op = "AdamUpdate";
    for (const char *key : {"beta1", "beta2", "epsilon"})
      spec.attributes.set(key, value(key));
    spec.attributes.set("decoupled", int64_t(spec.scalesByNorms         ? 3
                                             : kind.name != "adamw"     ? 0
                                             : value("decay_last") != 0 ? 2
                                                                        : 1));
    if (value("scaled_epsilon") != 0)
      spec.attributes.set("scaled_epsilon", int64_t(1));
    setRare(spec, "post_decay");
    setRare(spec, "first_step");
    spec.states = {"exp_avg", "exp_avg_sq"};
  } else if (value("momentum") > 0 || (kind.name != "sgd" && value("dampening") > 0)) {
    spec.op = "MomentumUpdate";
    for (const char *key : {"momentum", "dampening"})
      spec.attributes.set(key, value(key));
    spec.attributes.set("nesterov", int64_t(kind.name == "nesterov"));
    spec.states = {"momentum"};
    setRare(spec, "first_step");
  }
  return spec;
}

} // namespace pdc
