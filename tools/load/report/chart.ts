import { escapeHtml } from '../../../src/simulate/page.ts';
import type { Stretch } from './series.ts';

export const WIDTH = 960;
export const LEFT = 64;
export const RIGHT = 16;
export const TOP = 34;
const BOTTOM = 44;

/** Where values lie on the paper. */
export type Scale = (value: number) => number;

export interface Plot {
  readonly x: Scale;
  readonly y: Scale;
  readonly svg: string;
}

export interface PlotOptions {
  /** What a screen reader says. */
  readonly label: string;
  readonly seconds: number;
  readonly height: number;
  readonly stretches: readonly Stretch[];
  readonly yTicks: readonly number[];
  readonly yText: (value: number) => string;
  /** From a value to its share of the height, 0 to 1. */
  readonly share: (value: number) => number;
  /** Draws what belongs between grid and axes. */
  readonly content: (x: Scale, y: Scale) => string;
}

/** A chart over the seconds of the run, with the scenarios named above and the axes labelled. */
export function plot({ label, seconds, height, stretches, yTicks, yText, share, content }: PlotOptions): string {
  const bottom = height - BOTTOM;
  const x: Scale = (s) => LEFT + (s / seconds) * (WIDTH - LEFT - RIGHT);
  const y: Scale = (value) => bottom - share(value) * (bottom - TOP);
  const parts = [
    ...stretches.map((stretch, i) => band(stretch, i, x, bottom)),
    ...yTicks.map(
      (tick) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>` +
        `<text class="tick" x="${LEFT - 8}" y="${px(y(tick) + 4)}" text-anchor="end">${yText(tick)}</text>`,
    ),
    content(x, y),
    timeAxis(seconds, x, bottom),
  ];
  return svg(label, height, parts.join('\n'));
}

export function svg(label: string, height: number, content: string): string {
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeHtml(label)}">\n${content}\n</svg>`;
}

/** Round numbers from 0 to at least `most`, up to so many of them. */
export function roundTicks(most: number, count = 5): number[] {
  const raw = Math.max(most, 1) / count;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * magnitude).find((it) => it >= raw)!;
  return Array.from({ length: Math.ceil(most / step) + 1 || 2 }, (_, i) => i * step);
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
