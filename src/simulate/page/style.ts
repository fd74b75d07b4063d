/** The page's looks: light or dark as the reader has it, one colour for one thing everywhere. */
export const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --ink: #1b2330; --soft: #5a6576; --rule: #dfe4eb; --admitted: #4f8fcc;
  --refused: #dca11d; --banned: #bd3f2b; --unserved: #6d7683; --more: #bd3f2b; --less: #16734a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e6eaf1; --soft: #9ca8b8; --rule: #2d3541;
  --admitted: #4a83bd; --refused: #e3b34a; --banned: #e5705a; --unserved: #8d97a6; --more: #ef8b7a; --less: #5cc796; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; } h3 { font-size: .9rem; margin: 1rem 0 0; }
p, li { color: var(--soft); max-width: 50rem; margin: .25rem 0; } strong { color: var(--ink); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .55rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; } th:first-child, td:first-child, td.text { text-align: left; }
.more { color: var(--more); } .less { color: var(--less); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.tick { fill: var(--soft); } .grid { stroke: var(--rule); }
.admitted { fill: var(--admitted); } .refused { fill: var(--refused); } .banned { fill: var(--banned); }
.unserved { fill: var(--unserved); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .85rem; }
.legend svg { display: inline; width: .8em; height: .8em; margin-right: .4em; }
`;
