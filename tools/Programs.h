#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pdc {

/// Starts a program, found as a shell finds it, without input, its output added to a file. It ends
/// with this process, and after so much time where `most` is not 0. Throws std::system_error.
pid_t startProgram(const std::vector<std::string> &words, const std::filesystem::path &log,
                   std::chrono::seconds most = {});

/// Waits for a program's end: its exit code, 127 where it cannot be run, or 128 and the number of
/// the signal that ended it.
int waitForProgram(pid_t program);

/// The same of what waitpid says.
int codeOf(int status);

/// As execvp takes them.
std::vector<char *> argumentsOf(const std::vector<std::string> &words);

} // namespace pdc
