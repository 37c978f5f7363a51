#pragma once

#include <csignal>
#include <initializer_list>

namespace pdc::runtime {

/// SIGUSR1 and SIGUSR2 are SIGINT and SIGTERM, by way of a launcher such as mpirun, which passes
/// only these on.
constexpr int askedBy(int signal) {
  return signal == SIGUSR1 ? SIGINT : signal == SIGUSR2 ? SIGTERM : signal;
}

/// A closed terminal is not heard of where it is ignored, as under nohup.
inline void handleSignals(std::initializer_list<int> signals, void (*handler)(int)) {
  for (int signal : signals)
    if (std::signal(signal, handler) == SIG_IGN && signal == SIGHUP)
      std::signal(signal, SIG_IGN);
}

} // namespace pdc::runtime
