#include "runtime/MemoryTensors.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"
#include "runtime/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace pdc::runtime {

const Memory *findMemory(const Program &program, std::string_view name) {
  auto found = std::ranges::find(program.memories, name, &Memory::name);
  return found == program.memories.end() ? nullptr : &*found;
}

Scalar scalarOf(ElementType type) {
  static constexpr Scalar kScalars[] = {Scalar::f32, Scalar::i64, Scalar::i32,
                                        Scalar::u8,  Scalar::f16, Scalar::bf16};
  return kScalars[int(type)];
}

Layout layoutOf(const Memory &memory) {
  Layout layout(memory.layout, memory.shape);
  if (layout.elements() * elementBytes(memory.element) > memory.bytes)
    throw Error("memory '", memory.name, "' of ", memory.bytes, " bytes cannot hold layout '",
                memory.layout, "'; run pdc again");
  return layout;
}

template <class Make> static void put(const Executor &executor, const Memory &memory, Make make) {
  executor.memory().put(executor.newest(memory), memory.bytes, make);
}

const std::byte *look(const Executor &executor, const Memory &memory,
                      std::vector<std::byte> &copy) {
  return executor.memory().look(executor.newest(memory), memory.bytes, copy);
}

bool isTrained(const Program &program, const Memory &memory) {
  if (memory.role == Role::optimizer || memory.role == Role::state)
    return true;
  return memory.role == Role::weight &&
         std::any_of(program.memories.begin(), program.memories.end(), [&](const Memory &other) {
           return other.role == Role::gradient &&
                  std::string_view(other.name).starts_with(std::string(memory.name) + "/gradient");
         });
}

/// Of a tensor in f32; -1 where there is none.
static int64_t firstNotFinite(const TensorView &tensor) {
  for (int64_t i = 0; tensor.type == Scalar::f32 && i < tensor.bytes / 4; ++i) {
    float value = 0;
    std::memcpy(&value, tensor.data + 4 * i, 4);
    if (!std::isfinite(value))
      return i;
  }
  return -1;
}

void loadTensor(const Program &program, const Memory &memory, const Executor &executor,
                const std::map<std::string, TensorView> &tensors, const std::string &path,
                const char *remedy, const char *finiteRemedy) {
  auto found = tensors.find(memory.name);
  const std::vector<int64_t> shape(memory.shape.begin(), memory.shape.end());
  const Scalar type = scalarOf(memory.element);
  if (found == tensors.end())
    throw Error(path, ": has no tensor '", memory.name, "', expected ", scalarName(type),
                shapeText(shape), ", which rank ", program.rank, " needs; ", remedy);
  const TensorView &tensor = found->second;
  if (tensor.shape != shape || tensor.type != type)
    throw Error(path, ": tensor '", memory.name, "' is ", scalarName(tensor.type),
                shapeText(tensor.shape), ", expected ", scalarName(type), shapeText(shape), "; ",
                remedy);
  if (const int64_t i = isTrained(program, memory) ? firstNotFinite(tensor) : -1; i >= 0)
    throw Error(path, ": tensor '", memory.name, "' holds at element ", i,
                " nan or infinity, with which no training begins; ", finiteRemedy);
  put(executor, memory,
      [&](std::byte *to) { layoutOf(memory).pack(tensor.data, to, elementBytes(memory.element)); });
}

/// Padding is zero, so only another value that meets padding needs the tensor a second time.
template <class T> static void fillAs(const Memory &memory, const Layout &layout, std::byte *to) {
  if (T value = T(memory.fill); value == T(0) || layout.elements() == layout.logicalElements()) {
    std::fill_n(reinterpret_cast<T *>(to), layout.elements(), value);
    return;
  }
  std::vector<T> values(size_t(layout.logicalElements()), T(memory.fill));
  layout.pack(reinterpret_cast<const std::byte *>(values.data()), to, sizeof(T));
}

static void fillMemory(const Memory &memory, std::byte *to) {
  Layout layout = layoutOf(memory);
  switch (memory.element) {
  case ElementType::f32:
    return fillAs<float>(memory, layout, to);
  case ElementType::i64:
    return fillAs<int64_t>(memory, layout, to);
  case ElementType::i32:
    return fillAs<int32_t>(memory, layout, to);
  case ElementType::u8:
    return fillAs<uint8_t>(memory, layout, to);
  case ElementType::f16:
    return fillAs<Float16>(memory, layout, to);
  case ElementType::bf16:
    return fillAs<BFloat16>(memory, layout, to);
  }
}

void loadInitial(const Program &program, const Executor &executor, const std::string &weightsFile,
                 const std::string &constantsFile) {
  for (const Memory &memory : program.memories)
    if (memory.initial == Initial::fill && memory.role != Role::input)
      put(executor, memory, [&](std::byte *to) { fillMemory(memory, to); });
  for (auto [initial, path] :
       {std::pair(Initial::file, &weightsFile), std::pair(Initial::constants, &constantsFile)}) {
    std::unique_ptr<FileBytes> file;
    std::map<std::string, TensorView> tensors;
    for (const Memory &memory : program.memories) {
      if (memory.initial != initial)
        continue;
      if (!file) {
        file = std::make_unique<FileBytes>(*path);
        tensors = readSafetensors(*file);
      }
      loadTensor(program, memory, executor, tensors, *path,
                 "give the file that pdc wrote with this program, or run pdc again",
                 "correct what the model was exported with");
      file->release();
    }
  }
}

} // namespace pdc::runtime
