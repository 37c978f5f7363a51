#include "passes/ReplayedArena.h"

#include "compiler/Error.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

ReplayedArena::ReplayedArena(ProgramOp program) : program(program), symbols(program) {
  checkPlaces();
  for (auto region : program.getRegionsAttr().getAsRange<DictionaryAttr>()) {
    auto number = [&](StringRef key) { return region.getAs<IntegerAttr>(key).getInt(); };
    regions[region.getAs<StringAttr>("name").getValue()] = {number("offset"), number("stride"),
                                                            number("copies")};
  }
}

void ReplayedArena::checkPlaces() {
  if (!program.getRegions())
    throw Error("program @" + program.getSymName().str() + " has no arena; run plan-memory first");
  for (auto memory : program.getOps<MemoryOp>())
    if (!memory.getHome())
      throw Error("memory '" + memory.getSymName().str() + "' has no home; run assign-homes first");
  program.walk([&](UnitOp unit) {
    if (!unit.getHomes())
      throw Error("unit '" + unit.getName().str() + "' has no homes; run assign-homes first");
  });
}

void ReplayedArena::refuse(const std::string &what) {
  throw Error("program @" + program.getSymName().str() + ": " + what +
              "; this is a mistake of the memory plan, please report it with the model");
}

int64_t ReplayedArena::address(HomeAttr home, int64_t copy) {
  const Region &region = regions[home.getRegion()];
  if (copy >= region.copies || home.getOffset() < 0 ||
      home.getOffset() + home.getBytes() > region.stride)
    refuse("a home lies outside of region '" + home.getRegion().str() + "'");
  return region.offset + copy * region.stride + home.getOffset();
}

int64_t ReplayedArena::address(HomeAttr home, const Copies &copies, int64_t version) {
  StringRef region = home.getRegion();
  if (region == "versions")
    return address(home, version);
  if (region.starts_with("slots.") && copies.evaluation)
    home = HomeAttr::get(program.getContext(), "evaluation", home.getOffset(), home.getBytes());
  bool isSlot = region.starts_with("slots.") || region == "evaluation";
  return address(home, isSlot ? copies.slot : 0);
}

void ReplayedArena::write(MemoryOp memory, int64_t address, int64_t content) {
  bytes.write(address, memory.getHome()->getBytes(), content);
  contents[{memory, address}] = content;
}

int64_t ReplayedArena::contentOf(MemoryOp memory, int64_t address) {
  auto content = contents.find({memory, address});
  if (content == contents.end())
    refuse("memory '" + memory.getSymName().str() + "' is read before it is written");
  return content->second;
}

void ReplayedArena::expect(const Located &located, const std::string &who) {
  int64_t other = bytes.findOther(located.address, located.bytes, located.content);
  if (other >= 0)
    refuse(who + " expects " + bytes.text(located.content) + " and finds " + bytes.text(other));
}

} // namespace pdc
