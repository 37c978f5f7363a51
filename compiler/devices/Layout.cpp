#include "compiler/devices/Device.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cctype>
#include <ranges>

namespace pdc {

namespace {

/// An element type in front of a tag, as in "u8:aBcd16b".
struct StoredAs {
  std::string_view element, tag;
  explicit StoredAs(std::string_view layout) {
    size_t colon = layout.find(':');
    element = colon == layout.npos ? std::string_view() : layout.substr(0, colon);
    tag = colon == layout.npos ? layout : layout.substr(colon + 1);
  }
};

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Block size along each dimension.
std::vector<int64_t> blocksOf(const TensorType &type, std::string_view tag) {
  std::vector<int64_t> blocks(type.shape.size(), 1);
  size_t i = 0, dimensions = 0;
  for (; i < tag.size() && !isDigit(tag[i]); ++i)
    ++dimensions;
  bool fits = tag.empty() || dimensions == blocks.size();
  while (fits && i < tag.size()) {
    int64_t size = 0;
    for (; i < tag.size() && isDigit(tag[i]) && size < 1024; ++i)
      size = size * 10 + (tag[i] - '0');
    size_t dimension = i < tag.size() ? static_cast<size_t>(tag[i++] - 'a') : blocks.size();
    fits = size > 0 && dimension < blocks.size();
    if (fits)
      blocks[dimension] *= size;
  }
  if (!fits)
    throw Error("layout '" + std::string(tag) + "' does not fit " + type.toString());
  return blocks;
}

int64_t bytesOfElement(const TensorType &type, std::string_view element) {
  if (element.empty())
    return bytesPerElement(type.element);
  if (element == "u8")
    return 1;
  if (element == "i32")
    return 4;
  throw Error("layout of " + type.toString() + " names the element type '" + std::string(element) +
              "', expected u8 or i32");
}

} // namespace

int64_t elementsInLayout(const TensorType &type, std::string_view layout) {
  std::vector<int64_t> blocks = blocksOf(type, StoredAs(layout).tag);
  int64_t elements = 1;
  for (size_t d = 0; d < blocks.size(); ++d)
    elements *= (type.shape[d] + blocks[d] - 1) / blocks[d] * blocks[d];
  return elements;
}

int64_t bytesInLayout(const TensorType &type, std::string_view layout) {
  return elementsInLayout(type, layout) * bytesOfElement(type, StoredAs(layout).element);
}

std::vector<StoredDimension> storedDimensions(const TensorType &type, std::string_view layout) {
  std::vector<StoredDimension> stored;
  std::vector<int64_t> blocks = blocksOf(type, layout);
  for (size_t d = 0; layout.empty() && d < type.shape.size(); ++d)
    stored.push_back({d, type.shape[d], 1});
  size_t i = 0;
  for (; i < layout.size() && !isDigit(layout[i]); ++i) {
    const auto d = static_cast<size_t>(std::tolower(static_cast<unsigned char>(layout[i])) - 'a');
    if (type.shape.at(d) % blocks[d] != 0)
      throw Error("layout '" + std::string(layout) + "' pads " + type.toString());
    stored.push_back({d, type.shape.at(d) / blocks[d], blocks[d]});
  }
  while (i < layout.size()) {
    int64_t size = 0;
    for (; isDigit(layout[i]); ++i)
      size = size * 10 + (layout[i] - '0');
    const auto d = static_cast<size_t>(layout[i++] - 'a');
    blocks[d] /= size;
    stored.push_back({d, size, blocks[d]});
  }
  int64_t stride = 1;
  for (StoredDimension &dimension : std::views::reverse(stored)) {
    dimension.stride = stride;
    stride *= dimension.size;
  }
  return stored;
}

bool isRowMajor(const TensorType &type, std::string_view layout) {
  StoredAs stored(layout);
  if (!stored.element.empty())
    return false;
  if (stored.tag.empty())
    return true;
  if (elementsInLayout(type, layout) != type.elementCount())
    return false;
  const std::vector<int64_t> strides = stridesOf(type.shape);
  return std::ranges::all_of(storedDimensions(type, layout), [&](const StoredDimension &stored) {
    return stored.size == 1 || stored.stride == stored.step * strides[stored.dimension];
  });
}

} // namespace pdc
