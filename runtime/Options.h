#pragma once

#include "runtime/Dataset.h"

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pdc::runtime {

/// The command line of pdc-run and of every stage binary.
struct Options {
  std::vector<std::string> data, evaluationData;
  int64_t epochs = 0; ///< 0: one, unless `steps` says
  int64_t steps = 0;  ///< updates in all, those before --resume included; 0: by epochs
  std::string transport;
  std::string weights, save, resume, log, trace, record, tune;
  int64_t saveEvery = 0;
  std::optional<uint64_t> seed;
  std::optional<double> learningRate;
  std::string schedule = "constant";
  double clipNorm = 0;
  std::string metric; ///< none: accuracy where the loss has classes
  std::string order = "shuffled";
  double timeout = 0; ///< 0: start-up 600, step 300
  std::string progress = "auto";
  uint64_t delaySeed = 0;
  bool rendezvous = false, check = false, noGraphs = false;
  /// What was said of the options that decide how weights are trained, by name: --lr, --order, ...
  std::map<std::string, std::string> decisive;
};

/// Every option checks its text; `parse` also what several of them say together.
void addOptions(CLI::App &app, Options &options);

/// The exit code where the process ends here: 0 after --help, 2 after telling what is wrong with
/// the usage.
std::optional<int> parse(CLI::App &app, int argc, const char *const *argv);

/// As if `earlier`, what an earlier run was told of such options, stood before this command line.
/// Returns what is new by it, as it would be written. Throws Error where it is no such option, or
/// not what the option takes.
std::string takeOver(Options &options, const std::map<std::string, std::string> &earlier);

/// Beside this executable or above it, up to the folder that pdc wrote, or in that folder where the
/// program stands elsewhere and is run in it; "" where it is not.
std::string findBeside(const std::string &file);

} // namespace pdc::runtime
