#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Parameters.h"
#include "compiler/plan/Plan.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pdc {

/// Where a run of pdc ends.
enum class StopAfter { import, graph, cut, staged, scheduled, sources };

/// The command line of pdc, checked as far as that needs no model.
struct Options {
  std::filesystem::path model;
  std::string annotated; ///< --annotated: the model with its stages
  std::filesystem::path output; ///< -o, or the model's path with the extension .pdc
  /// What the plan is asked for, as far as no model says it: --gpus, --schedule, --stages, ...
  PlanRequest plan;
  std::string topology;
  int servers = 0; ///< of --gpus SxG; 0: it says a number of devices
  std::string loss;
  ArtifactFiles artifacts; ///< --checkpoint, and --optimizer where it names a file
  std::string optimizer; ///< empty: the file's, else sgd,lr=0.01
  std::vector<std::string> train, freeze;
  UpdateGroups groups; ///< --no-decay, --lr-scale
  std::map<std::string, int64_t> dimensions;
  std::optional<int64_t> minibatch, microbatches;
  std::string profile;
  StopAfter stopAfter = StopAfter::sources;
};

/// Refuses another value than the available ones: with UsageError, or with Error what pdc knows of
/// but cannot do yet.
void checkChoice(const std::string &option, const std::string &value,
                 const std::vector<std::string> &available, const std::vector<std::string> &later);

/// Reads the command line. Prints help or what is wrong with the usage and returns the exit code
/// when there is nothing to do; throws UsageError, and Error for what pdc cannot do.
std::optional<int> parseOptions(int argc, char **argv, Options &options);

/// The options that say what is trained and how it is compiled, for every command that compiles a
/// model. `dimensions` takes the texts of --bind, which are checked with the others.
void addModelOptions(CLI::App &app, Options &options, std::vector<std::string> &dimensions);
/// Throws Error where no kernels of the device compute in it.
Precision parsePrecision(const std::string &text, const std::string &device);
void checkModelOptions(const std::vector<std::string> &dimensions, Options &options);

} // namespace pdc
