import { escapeHtml } from './html.ts';

export const WIDTH = 960;
const HEIGHT = 320;
const LEFT = 64;
export const RIGHT = 16;
export const TOP = 34;
const BOTTOM = 44;

/** Where values lie on the paper. */
export type Scale = (value: number) => number;

/** A stretch of the run that a chart shows, in seconds from the beginning. */
export interface Stretch {
  readonly name: string;
  readonly fromS: number;
  readonly toS: number;
}

/** The vertical axis of a chart. */
export interface Axis {
  readonly ticks: readonly number[];
  readonly text: (value: number) => string;
  /** From a value to its share of the height, 0 to 1. */
  readonly share: (value: number) => number;
}

/** An axis from 0 to at least `max`. */
export function linearAxis(max: number): Axis {
  const ticks = roundTicks(max);
  return { ticks, text: String, share: (value) => value / ticks.at(-1)! };
}

const LOWEST_MS = 0.1;

/** An axis on which ten times as long is one step up. */
export function durationAxis(maxMs: number): Axis {
  const decades = Math.max(1, Math.ceil(Math.log10(maxMs / LOWEST_MS)));
  return {
    ticks: Array.from({ length: decades + 1 }, (_, i) => LOWEST_MS * 10 ** i),
    text: (ms) => `${Number(ms.toPrecision(1))} ms`,
    share: (ms) => Math.log10(Math.max(ms, LOWEST_MS) / LOWEST_MS) / decades,
  };
}

/** What a chart over the seconds of a run has in common with the others. */
export interface Run {
  readonly seconds: number;
  /** The scenarios, named above the chart. */
  readonly stretches: readonly Stretch[];
  /** What is shaded: while a fault was there. */
  readonly shaded?: readonly Stretch[];
}

interface PlotOptions {
  /** What a screen reader says. */
  readonly label: string;
  readonly axis: Axis;
  /** Draws what belongs between grid and axes. */
  readonly content: (x: Scale, y: Scale) => string;
}

/** A chart over the seconds of the run, with the axes labelled. */
export function plot({ seconds, stretches, shaded = [] }: Run, { label, axis, content }: PlotOptions): string {
  const bottom = HEIGHT - BOTTOM;
  const x: Scale = (s) => LEFT + (s / Math.max(seconds, 1)) * (WIDTH - LEFT - RIGHT);
  const y: Scale = (value) => bottom - axis.share(value) * (bottom - TOP);
  const parts = [
    ...stretches.map((stretch, i) => band(stretch, i, x, bottom)),
    ...axis.ticks.map(
      (tick) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>` +
        `<text class="tick" x="${LEFT - 8}" y="${px(y(tick) + 4)}" text-anchor="end">${axis.text(tick)}</text>`,
    ),
    ...shaded.map(
      ({ name, fromS, toS }) =>
        `<rect class="fault" x="${px(x(fromS))}" y="${TOP}" width="${px(Math.max(x(toS) - x(fromS), 1))}" height="${px(bottom - TOP)}"><title>${escapeHtml(name)}</title></rect>`,
    ),
    content(x, y),
    timeAxis(seconds, x, bottom),
  ];
  return svg(label, HEIGHT, parts.join('\n'));
}

/** A line through values of seconds. */
export function line(
  name: string,
  points: readonly (readonly [s: number, value: number])[],
  x: Scale,
  y: Scale,
): string {
  const path = points.map(([s, value], i) => `${i === 0 ? 'M' : 'L'}${px(x(s + 0.5))} ${px(y(value))}`).join('');
  return `<path class="${name} line" d="${path}"/>`;
}

export function svg(label: string, height: number, content: string): string {
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeHtml(label)}">\n${content}\n</svg>`;
}

/** Round numbers from 0 to at least `max`, about `count` of them. */
function roundTicks(max: number, count = 5): number[] {
  const raw = Math.max(max, 1) / count;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * magnitude).find((it) => it >= raw)!;
  return Array.from({ length: Math.ceil(max / step) + 1 || 2 }, (_, i) => i * step);
}

export function timeAxis(seconds: number, x: Scale, bottom: number): string {
  const ticks = roundTicks(seconds, 10).filter((tick) => tick <= seconds && Number.isInteger(tick));
  const texts = ticks.map(
    (tick) => `<text class="tick" x="${px(x(tick))}" y="${bottom + 18}" text-anchor="middle">${tick}</text>`,
  );
  return (
    `<line class="axis" x1="${px(x(0))}" x2="${WIDTH - RIGHT}" y1="${bottom}" y2="${bottom}"/>${texts.join('')}` +
    `<text class="tick" x="${WIDTH - RIGHT}" y="${bottom + 32}" text-anchor="end">seconds since the beginning</text>`
  );
}

export function band({ name, fromS, toS }: Stretch, i: number, x: Scale, bottom: number): string {
  const left = x(fromS);
  const width = x(toS) - left;
  // A name that does not fit says nothing; the tooltip has it.
  const fits = width > name.length * 6.4 + 4;
  const text = fits ? `<text class="stretch" x="${px(left + 4)}" y="${TOP - 10}">${escapeHtml(name)}</text>` : '';
  const title = `<title>${escapeHtml(name)}, ${fromS.toFixed(0)} to ${toS.toFixed(0)} s</title>`;
  const shade = i % 2 === 0 ? 'even' : 'odd';
  const rect = `<rect class="band ${shade}" x="${px(left)}" y="${TOP - 24}" width="${px(width)}" height="${bottom - TOP + 24}">${title}</rect>`;
  return rect + text;
}

export function px(value: number): string {
  return value.toFixed(1);
}
