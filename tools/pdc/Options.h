#pragma once

#include "compiler/onnx/Model.h"
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
  int workers = 0;              ///< of --gpus or --topology
  std::string topology;
  std::string loss;
  ArtifactFiles artifacts; ///< --checkpoint, and --optimizer where it names a file
  std::string optimizer; ///< empty: the file's, else sgd,lr=0.01
  std::vector<std::string> train, freeze, noDecay;
  std::map<std::string, int64_t> dimensions;
  std::optional<int64_t> minibatch, microbatches;
  std::string schedule = "auto";
  bool verticalSync = false;
  /// Stages per rank of a schedule that places several (two).
  std::optional<int64_t> chunks;
  /// Stages wanted; 0: as many as workers.
  int stages = 0;
  /// Replicas of each stage, where they are given.
  std::vector<int> replicas;
  /// `--stages FILE`: node name -> stage.
  std::map<std::string, int> assignment;
  /// What gave it, for messages: `--stages FILE`, or the model's annotations.
  std::string assignedBy;
  std::string profile;
  int64_t memoryBytes = 0;
  RecomputeChoice recompute;
  bool exact = false;
  int threads = 1;
  std::string device = "cpu"; ///< or "cuda"
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
void checkModelOptions(const std::vector<std::string> &dimensions, Options &options);

} // namespace pdc
