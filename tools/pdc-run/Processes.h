#pragma once

#include <map>
#include <string>
#include <vector>

namespace pdc {

/// What is to be started: its words, and what its environment has besides this one's.
struct Process {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;
};

/// The command takes this process's place: signals and exit code are its own.
int become(const std::vector<std::string> &words);

/// Runs a launcher, or ranks, until all have ended. The exit code is 0, 1, 2, or that of the signal
/// that ended the run.
int supervise(const std::vector<Process> &processes);

/// A process per rank, which find each other over this host's loopback.
std::vector<Process> ranksOfThisHost(const std::vector<std::string> &words, int ranks);

} // namespace pdc
