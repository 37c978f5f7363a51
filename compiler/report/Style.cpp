#include "compiler/report/Drawings.h"

namespace pdc {

// A stage's hue is --h, set where its element stands; lightness says the phase, so that labels keep
// their contrast and phases differ without colour.
static constexpr const char *kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f5f2; --card: #fff; --ink: #1c1e22; --soft: #5b616b; --line: #e3e1db;
  --idle: #ecebe6; --accent: #2456c8; --rest: #b9bec9; --cut: #c8321e;
  --forward: .8; --backward: .47; --chroma: .11;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131518; --card: #1b1e23; --ink: #e8e9ec; --soft: #9aa1ac; --line: #2e333b;
    --idle: #252930; --accent: #7ea2ff; --rest: #565d69; --cut: #ff8a75;
    --forward: .76; --backward: .5; --chroma: .1;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 8px; }
.lead { margin: 0 0 24px; color: var(--soft); font-size: 16px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px 20px 16px; margin: 0 0 20px; }
.soft, small { color: var(--soft); }
p.soft { margin: 0 0 10px; font-size: 13.5px; }
code { font-size: .92em; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 14px; margin: 0 0 20px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px; }
.card dt { color: var(--soft); font-size: 13px; }
.card dd { margin: 0; font-size: 28px; font-weight: 650; line-height: 1.25; font-variant-numeric: tabular-nums; }
.card small { display: block; font-size: 13px; font-weight: 400; line-height: 1.35; }
ul.notes { margin: 0; padding-left: 20px; }
ul.notes li { margin: 3px 0; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 7px 12px 7px 0; border-top: 1px solid var(--line); vertical-align: top; font-weight: 400; }
thead th { border-top: 0; color: var(--soft); font-size: 12.5px; white-space: nowrap; padding-top: 0; }
.id { white-space: nowrap; }
.n { text-align: right; white-space: nowrap; }
td small, th small { display: block; font-size: 12.5px; }
.wide { width: 22%; min-width: 110px; }
.names { overflow-wrap: anywhere; min-width: 170px; font-size: 13px; }
tr.own th, tr.own td { font-weight: 650; }
tr.own small { font-weight: 400; }
.bar { display: block; height: 9px; margin: 6px 0 3px; border-radius: 5px; background: var(--idle); overflow: hidden; }
.bar span { display: block; height: 100%; border-radius: 5px; background: var(--rest); --stage: oklch(.66 .12 var(--h, 0)); }
.parts { display: flex; height: 26px; border-radius: 7px; overflow: hidden; background: var(--idle); margin: 4px 0 10px; }
.parts span { display: block; min-width: 1px; }
.swatch, .key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.swatch { background: oklch(.66 .12 var(--h)); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 12px; font-size: 13px; color: var(--soft); }
.key { --h: 255; width: 20px; }
.key.F { background: oklch(var(--forward) var(--chroma) var(--h)); }
.key.B, .key.I { background: oklch(var(--backward) var(--chroma) var(--h)); }
.key.W { background: oklch(var(--forward) .04 var(--h)); border: 1.5px solid oklch(var(--backward) var(--chroma) var(--h)); }
.key.U { background: var(--ink); width: 5px; }
.key.S { border: 1.5px dashed var(--soft); }
.key.send { background: var(--soft); height: 3px; vertical-align: 3px; }
.key.idle { background: var(--idle); }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.timeline { display: flex; }
.timeline > svg { flex: none; }
.timeline .scroll { flex: 1; min-width: 0; }
svg { display: block; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .soft, svg .axis { fill: var(--soft); font-size: 11px; }
svg .in, svg .on { font-size: 10px; text-anchor: middle; fill: #14161a; }
svg .on { fill: #fff; }
.tick { stroke: var(--line); }
rect.idle { fill: var(--idle); }
rect.F, rect.E { fill: oklch(var(--forward) var(--chroma) var(--h)); }
rect.B, rect.I { fill: oklch(var(--backward) var(--chroma) var(--h)); }
rect.W { fill: oklch(var(--forward) .04 var(--h)); stroke: oklch(var(--backward) var(--chroma) var(--h)); stroke-width: 1; }
rect.U { fill: var(--ink); }
rect.S { fill: none; stroke: var(--soft); stroke-dasharray: 3 2; }
rect.F, rect.B, rect.I { stroke: var(--card); stroke-width: .7; }
rect.send { fill: var(--soft); opacity: .75; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 16px 20px; }
figure { margin: 0; }
figure svg { width: 100%; height: auto; background: var(--idle); border-radius: 5px; }
figcaption { font-size: 13px; display: flex; gap: 6px; margin-bottom: 3px; }
figcaption b { margin-left: auto; font-weight: 600; font-variant-numeric: tabular-nums; }
.area { fill: oklch(.7 .12 var(--h)); }
.planned, .limit { fill: none; stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 5 4; opacity: .7; }
.limit { stroke: var(--cut); stroke-dasharray: none; }
.units circle, .units rect { fill: oklch(var(--forward) var(--chroma) var(--h)); stroke: oklch(var(--backward) var(--chroma) var(--h)); }
.edge, .cut { fill: none; stroke: var(--rest); }
.cut { stroke: var(--cut); stroke-width: 2; }
details { margin-top: 12px; font-size: 14px; }
summary { cursor: pointer; color: var(--soft); margin-bottom: 8px; }
@media print { body { background: #fff; } section, .card { break-inside: avoid; } }
)css";

std::string reportStyle() { return kStyle; }

} // namespace pdc
