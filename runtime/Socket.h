#pragma once

#include <cstddef>
#include <string>

namespace pdc::runtime {

/// The next connection, or -1 after `patience` seconds.
int acceptSocket(int listener, double patience);
/// Connects to the first of the addresses (separated by ',') that answers; -1 if none does.
int connectSocket(const std::string &addresses, int port);
/// False when the connection ends or `patience` seconds bring nothing.
bool readExactly(int socket, void *data, size_t bytes, double patience);
bool writeAll(int socket, const void *data, size_t bytes);

} // namespace pdc::runtime
