#include "runtime/kernels/Layouts.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cctype>

namespace pdc::runtime {

namespace {

struct ParsedTag {
  std::vector<int> order; ///< dimensions from the slowest to the fastest
  std::vector<int> blockedDimensions;
  std::vector<int64_t> blockSizes;
};

ParsedTag rowMajor(size_t rank) {
  ParsedTag parsed;
  for (size_t d = 0; d < rank; ++d)
    parsed.order.push_back(static_cast<int>(d));
  return parsed;
}

[[noreturn]] void refuseTag(std::string_view tag, size_t rank) {
  throw Error("layout '", tag, "' does not fit a tensor of rank ", rank,
              "; regenerate the sources with pdc");
}

static_assert(Dimensions::kMost <= DNNL_MAX_NDIMS);

ParsedTag parse(std::string_view tag, size_t rank) {
  if (rank > DNNL_MAX_NDIMS)
    refuseTag(tag, rank);
  if (tag.empty())
    return rowMajor(rank);
  ParsedTag parsed;
  size_t i = 0;
  for (; i < tag.size() && std::isalpha(static_cast<unsigned char>(tag[i])); ++i)
    parsed.order.push_back(std::tolower(static_cast<unsigned char>(tag[i])) - 'a');
  while (i < tag.size()) {
    int64_t size = 0;
    for (; i < tag.size() && std::isdigit(static_cast<unsigned char>(tag[i])) && size < 1024; ++i)
      size = size * 10 + (tag[i] - '0');
    if (i == tag.size() || size < 1)
      refuseTag(tag, rank);
    parsed.blockSizes.push_back(size);
    parsed.blockedDimensions.push_back(tag[i++] - 'a');
  }
  std::vector<int> sorted = parsed.order;
  std::sort(sorted.begin(), sorted.end());
  bool inRange = std::all_of(parsed.blockedDimensions.begin(), parsed.blockedDimensions.end(),
                             [&](int d) { return d >= 0 && d < static_cast<int>(rank); });
  if (sorted != rowMajor(rank).order || !inRange || parsed.blockSizes.size() > DNNL_MAX_NDIMS)
    refuseTag(tag, rank);
  return parsed;
}

} // namespace

dnnl::memory::desc describe(std::span<const int64_t> shape, std::string_view tag,
                            dnnl::memory::data_type type) {
  ParsedTag parsed = parse(tag, shape.size());
  dnnl_memory_desc_t desc{};
  desc.ndims = static_cast<int>(shape.size());
  desc.data_type = dnnl::memory::convert_to_c(type);
  desc.format_kind = dnnl_blocked;
  auto &blocking = desc.format_desc.blocking;
  std::vector<int64_t> blocks(shape.size(), 1);
  int64_t stride = 1;
  blocking.inner_nblks = static_cast<int>(parsed.blockSizes.size());
  for (size_t i = 0; i < parsed.blockSizes.size(); ++i) {
    blocking.inner_idxs[i] = parsed.blockedDimensions[i];
    blocking.inner_blks[i] = parsed.blockSizes[i];
    blocks[parsed.blockedDimensions[i]] *= parsed.blockSizes[i];
    stride *= parsed.blockSizes[i];
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    desc.dims[d] = shape[d];
    desc.padded_dims[d] = (shape[d] + blocks[d] - 1) / blocks[d] * blocks[d];
  }
  for (size_t i = parsed.order.size(); i-- > 0;) {
    int d = parsed.order[i];
    blocking.strides[d] = stride;
    stride *= desc.padded_dims[d] / blocks[d];
  }
  return dnnl::memory::desc(desc);
}

int64_t channelBlock(std::string_view tag) {
  size_t digit = tag.find_first_of("0123456789");
  if (digit == std::string_view::npos)
    return 1;
  int64_t size = 0;
  for (; digit < tag.size() && std::isdigit(static_cast<unsigned char>(tag[digit])); ++digit)
    size = size * 10 + (tag[digit] - '0');
  return size;
}

ChannelLayout::ChannelLayout(std::span<const int64_t> shape, const char *layout)
    : lanes(channelBlock(layout)) {
  const std::string_view tag = layout;
  bool known = tag.empty() || (tag.substr(0, 2) == "aB" && tag.back() == 'b');
  if (!known || shape.size() < 2 || (lanes != 1 && lanes != 8 && lanes != 16))
    throw Error(
        "no kernel for layout '", tag, "' of a tensor of rank ", shape.size(),
        "; expected row-major or channel blocks of 8 or 16; regenerate the sources with pdc");
  batch = shape[0];
  channels = shape[1];
  for (size_t d = 2; d < shape.size(); ++d)
    pixels *= shape[d];
}

} // namespace pdc::runtime
