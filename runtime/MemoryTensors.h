#pragma once

#include "runtime/Executor.h"
#include "runtime/Layout.h"
#include "runtime/Safetensors.h"

#include <map>
#include <string>
#include <vector>

/// Memories of a program as the tensors of files.
namespace pdc::runtime {

/// Null where there is none of the name.
const Memory *findMemory(const Program &program, std::string_view name);

Scalar scalarOf(ElementType type);

Layout layoutOf(const Memory &memory);

/// The newest version; `copy` holds it where the host cannot look at it in its place.
const std::byte *look(const Executor &executor, const Memory &memory, std::vector<std::byte> &copy);

/// What training writes: optimizer state, running statistics, and weights that have a gradient.
bool isTrained(const Program &program, const Memory &memory);

/// `path` and `remedy` are what errors say; numbers that training cannot begin with are refused
/// with `finiteRemedy`.
void loadTensor(const Program &program, const Memory &memory, const Executor &executor,
                const std::map<std::string, TensorView> &tensors, const std::string &path,
                const char *remedy, const char *finiteRemedy);

/// Gives every memory what the model's file and the fill values say.
void loadInitial(const Program &program, const Executor &executor, const std::string &weightsFile,
                 const std::string &constantsFile);

} // namespace pdc::runtime
