import { OUTCOMES } from './outcomes.ts';

export interface Page {
  /** `Tollgate chaos`. */
  readonly title: string;
  readonly verdict: string;
  readonly isHeld: boolean;
  /** What this report has beside the looks of all. */
  readonly style?: string;
  /** HTML, below the verdict. */
  readonly body: string;
}

/** One page with all that a run showed. It needs nothing but itself: no script, no network. */
export function pageOf({ title, verdict, isHeld, style = '', body }: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}: ${verdict}</title>
<style>${STYLE}${style}</style>
</head>
<body>
<h1 class="${isHeld ? 'held' : 'broken'}">${verdict}</h1>
${body}
</body>
</html>
`;
}

/** `2026-11-24 09:00:00 UTC`. */
export function momentText(moment: Date): string {
  return `${moment.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** Light or dark as the reader has it, the same colour for the same thing everywhere. */
const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #566173; --rule: #dde2ea; --band: #f3f5f9;
  --good: #16734a; --bad: #b3261e; --admitted: #2f74c0; --refused: #e0a526; --banned: #c2452d; --unauthenticated: #8456c4;
  --uncounted: #7a8494; --lost: #111; --p50: #2f74c0; --p95: #c78a00; --p99: #c2452d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e6eaf1; --soft: #9ba7b8; --rule: #2d3542;
  --band: #1b212b; --good: #58c793; --bad: #ff8a80; --admitted: #5b9ee6; --refused: #e6b64c; --banned: #e8735a;
  --unauthenticated: #a98be0; --uncounted: #8b95a5; --lost: #fff; --p50: #5b9ee6; --p95: #e6b64c; --p99: #e8735a; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .25rem; }
h1.held { color: var(--good); } h1.broken { color: var(--bad); }
p { margin: .25rem 0 .75rem; color: var(--soft); max-width: 48rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
.wide { overflow-x: auto; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child, td.text { text-align: left; white-space: normal; }
.held { color: var(--good); } .broken { color: var(--bad); font-weight: 600; } .untried { color: var(--soft); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.tick, svg text.stretch { fill: var(--soft); } svg text.number { fill: #fff; font-weight: 600; }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); } .band.even { fill: var(--band); } .band.odd { fill: none; }
.line { fill: none; stroke-width: 2; } .dot { opacity: .01; } .dot:hover { opacity: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .85rem; }
.key::before { content: ''; display: inline-block; width: .8em; height: .8em; margin-right: .45em; border-radius: 2px;
  background: var(--colour); }
${[...OUTCOMES, 'p50', 'p95', 'p99']
  .map(
    (name) =>
      `.${name} { --colour: var(--${name}); fill: var(--${name}); } .${name}.line { stroke: var(--${name}); fill: none; }`,
  )
  .join('\n')}
`;
