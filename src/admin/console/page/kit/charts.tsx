import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hrefOf, navigate } from '../place.ts';
import { Table } from './data-table.tsx';
import { countText } from './format.tsx';

/** One kind of value in a chart. Its place in the stack, its pattern and its name distinguish it, not its colour alone. */
export interface Series {
  readonly name: string;
  readonly title: string;
  /** The custom property of its colour: `--admitted`. */
  readonly color: string;
  /** Drawn as stripes; a line as dashes. */
  readonly isStriped?: boolean;
}

/** Requests by what quotas and bans made of them. */
export const BY_QUOTA: readonly Series[] = [
  { name: 'admitted', title: 'Admitted', color: '--admitted' },
  { name: 'refused', title: 'Refused', color: '--refused', isStriped: true },
  { name: 'banned', title: 'Banned', color: '--banned' },
];

export interface Bar {
  /** Where the bar stands in time, as text: `12:04:30`. */
  readonly label: string;
  /** By the names of the series; null: unknown. A line has a gap where there is no value. */
  readonly values: Readonly<Record<string, number | null | undefined>>;
  /** `unknown`: nothing is known of this time, which is not the same as nothing. `part`: some of it is unknown. `running`: it is not over. */
  readonly state?: keyof typeof STATES | undefined;
  /** The screen with what is behind the bar. */
  readonly path?: string | undefined;
  /** What was changed in this time, a line each. */
  readonly changes?: readonly string[];
}

const STATES = {
  unknown: 'Unknown: no gateway has reported this time.',
  part: 'Not all of this time is known.',
  running: 'This time is not over.',
} as const;

interface TimeChartProps {
  readonly id: string;
  /** What the chart shows. */
  readonly title: string;
  readonly series: readonly Series[];
  /** Series that are drawn as lines over the others. */
  readonly over?: readonly Series[];
  /** Oldest first. */
  readonly bars: readonly Bar[];
  /** The time of one bar: `5 seconds`, `hour`. */
  readonly step: string;
  /** A value as text, with its unit. */
  readonly text?: (value: number) => string;
  /** The bar under the pointer of charts that share it. Without it the chart has its own. */
  readonly cursor?: Cursor;
}

/** Which bar is chosen: charts of the same bars show the same one. */
export interface Cursor {
  readonly at: number | null;
  readonly move: (at: number | null) => void;
}

/** Of lines that are told apart by more than their colour. */
const DASHES = '4 3';
/** How a change is marked. */
const MARK = { fill: 'var(--accent)', stroke: 'var(--accent)' };
const HEIGHT = 190;
const LEFT = 60;
const BOTTOM = 22;
const TOP = 8;

/** Stacked bars over time. */
export function BarChart(props: TimeChartProps) {
  return (
    <TimeChart
      {...props}
      totalOf={(values, series) => series.reduce((sum, { name }) => sum + (values[name] ?? 0), 0)}
      draw={({ bars, series, slot, yOf, id }) =>
        bars.map(({ values, state }, i) => {
          let below = 0;
          return series.map(({ name, color, isStriped }) => {
            const value = values[name] ?? 0;
            if (value === 0) return null;
            const y = yOf(below + value);
            const height = Math.max(1, yOf(below) - y);
            below += value;
            const box = { x: LEFT + (i + 0.12) * slot, y, width: slot * 0.76, height };
            return (
              <>
                <rect {...box} fill={`var(${color})`} />
                {isStriped && <rect {...box} fill={`url(#${id}-stripes)`} />}
                {state !== undefined && <rect {...box} fill={`url(#${id}-hatch)`} />}
              </>
            );
          });
        })
      }
    />
  );
}

/** Lines over time, such as those of a latency. */
export function LineChart(props: TimeChartProps) {
  return <TimeChart {...props} isOfLines totalOf={highestOf} draw={(plot) => <Lines {...plot} />} />;
}

function highestOf(values: Bar['values'], series: readonly Series[]): number {
  return Math.max(0, ...series.map(({ name }) => values[name] ?? 0));
}

function Lines({ bars, series, slot, yOf }: Omit<Plot, 'id'>) {
  return series.map(({ name, color, isStriped }) => (
    <path
      key={name}
      class="line"
      stroke-dasharray={isStriped ? DASHES : undefined}
      stroke={`var(${color})`}
      d={lineOf(
        bars.map(({ values }) => values[name]),
        slot,
        yOf,
      )}
    />
  ));
}

/** A path through the middle of each bar, with a gap where there is no value. A value between two gaps is a short dash. */
function lineOf(values: readonly (number | null | undefined)[], slot: number, yOf: (value: number) => number): string {
  let isDrawn = false;
  return values
    .map((value, i) => {
      if (value === undefined || value === null) {
        isDrawn = false;
        return '';
      }
      const isAlone = !isDrawn && (values[i + 1] ?? null) === null;
      const step = `${isDrawn ? 'L' : 'M'}${LEFT + (i + (isAlone ? 0.3 : 0.5)) * slot} ${yOf(value)}`;
      isDrawn = true;
      return isAlone ? `${step}h${slot * 0.4}` : step;
    })
    .join('');
}

interface Plot {
  readonly id: string;
  readonly bars: readonly Bar[];
  /** Those that the reader has not switched off. */
  readonly series: readonly Series[];
  /** The width of a bar. */
  readonly slot: number;
  readonly yOf: (value: number) => number;
}

/**
 * The frame of a chart over time. The arrow keys and the pointer move along the bars, and beside the chosen one stands what it holds. The
 * legend switches series off, and a table has the same numbers.
 */
function TimeChart({
  id,
  title,
  series: own,
  over = [],
  bars,
  step,
  text = countText,
  cursor,
  isOfLines = false,
  totalOf,
  draw,
}: TimeChartProps & {
  isOfLines?: boolean;
  /** How high a bar is. */
  totalOf: (values: Bar['values'], series: readonly Series[]) => number;
  draw: (plot: Plot) => ComponentChildren;
}) {
  const [ownAt, setOwnAt] = useState<number | null>(null);
  const [off, setOff] = useState<readonly string[]>([]);
  const { at: chosen, move: choose } = cursor ?? { at: ownAt, move: setOwnAt };
  const frame = useRef<HTMLElement>(null);
  const width = useWidth(frame);
  const all = [...own, ...over];
  const isOn = ({ name }: Series) => !off.includes(name);
  const [series, lines] = [own.filter(isOn), over.filter(isOn)];
  const totals = bars.map(({ values }) => totalOf(values, series));
  const highest = niceCeiling(Math.max(0, ...totals, ...bars.map(({ values }) => highestOf(values, lines))));
  const slot = (width - LEFT) / Math.max(1, bars.length);
  const yOf = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / highest);
  const at = chosen === null ? null : Math.min(chosen, bars.length - 1);
  const path = at === null ? undefined : bars[at]?.path;
  const open = () => {
    if (path !== undefined) navigate(path);
  };
  const move = (event: KeyboardEvent) => {
    const at = chosen ?? bars.length - 1;
    if (event.key === 'Enter') open();
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(Math.min(bars.length - 1, Math.max(0, next)));
  };
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGSVGElement).getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width - LEFT;
    choose(x < 0 ? null : Math.min(bars.length - 1, Math.floor(x / slot)));
  };
  const turn = (name: string) => {
    const isOff = off.includes(name);
    // One series stays.
    if (isOff || series.length + lines.length > 1) setOff(isOff ? off.filter((one) => one !== name) : [...off, name]);
  };
  const sumText = (name: string) => (isOfLines ? '' : countText(sumOf(bars, name)));
  const sums = all.map(({ title, name }) => `${title} ${sumText(name)}`.trim()).join(', ');
  const textIn = ({ values, state }: Bar, name: string) =>
    values[name] === null || (state === 'unknown' && values[name] === undefined)
      ? 'unknown'
      : values[name] === undefined && isOfLines
        ? 'none'
        : text(values[name] ?? 0);
  return (
    <figure class="chart" ref={frame}>
      <figcaption class="row spread before">
        <p>
          <strong>{title}</strong>{' '}
          <span class="muted">
            {isOfLines ? 'by' : 'per'} {step}
          </span>
        </p>
        <ul class="row small before legend">
          {all.map((one) => (
            <li key={one.name}>
              <button type="button" aria-pressed={!off.includes(one.name)} onClick={() => turn(one.name)}>
                <Swatch of={one} isLine={isOfLines || lines.includes(one)} />
                {one.title} <span class="muted">{sumText(one.name)}</span>
              </button>
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="plot-frame">
        <svg
          class={`plot ${path === undefined ? '' : 'opens'}`}
          viewBox={`0 0 ${width} ${HEIGHT}`}
          role="img"
          tabindex={0}
          aria-label={`${title}: ${sums}. The arrow keys move along the bars.${
            bars.some(({ path }) => path !== undefined) ? ' Enter opens one.' : ''
          }`}
          aria-describedby={`${id}-readout`}
          onKeyDown={move}
          onClick={open}
          onPointerMove={point}
          onPointerLeave={() => choose(null)}
          onBlur={() => choose(null)}
        >
          <defs>
            {['stripes', 'hatch'].map((kind) => (
              <pattern
                key={kind}
                id={`${id}-${kind}`}
                width="6"
                height="6"
                patternUnits="userSpaceOnUse"
                patternTransform={`rotate(${kind === 'hatch' ? -45 : 45})`}
              >
                <path d="M0 0V6" stroke="var(--surface)" stroke-width={kind === 'hatch' ? 7 : 2.2} />
              </pattern>
            ))}
          </defs>
          {(highest === 1 && !isOfLines ? [0, 1] : [0, 0.5, 1]).map((part) => {
            const y = yOf(highest * part);
            return (
              <g key={part}>
                <path d={`M${LEFT} ${y}H${width}`} stroke="var(--line)" />
                <text x={LEFT - 8} y={y + 4} text-anchor="end">
                  {isOfLines ? text(highest * part) : shortText(highest * part)}
                </text>
              </g>
            );
          })}
          {bars.map(({ state }, i) => (
            <rect
              key={i}
              fill={i === at ? 'var(--accent-ground)' : state === 'unknown' ? 'var(--sunken)' : 'transparent'}
              x={LEFT + i * slot}
              y={TOP}
              width={slot}
              height={HEIGHT - TOP - BOTTOM}
            />
          ))}
          {draw({ id, bars, series, slot, yOf })}
          <Lines bars={bars} series={lines} slot={slot} yOf={yOf} />
          {bars.map(
            ({ changes = [] }, i) =>
              changes.length > 0 && (
                <path key={i} {...MARK} d={`M${LEFT + (i + 0.5) * slot} ${HEIGHT - BOTTOM}V${TOP}m0 0l-4-7h8z`} />
              ),
          )}
          {ticksOf(bars, width < 480 ? 2 : 4).map((i) => (
            <text
              key={i}
              x={LEFT + (i + 0.5) * slot}
              y={HEIGHT - 6}
              text-anchor={i === 0 ? 'start' : i === bars.length - 1 ? 'end' : 'middle'}
            >
              {bars[i]!.label}
            </text>
          ))}
        </svg>
        <div
          class="readout"
          id={`${id}-readout`}
          aria-live="polite"
          style={at === null ? {} : besideBar(LEFT + at * slot, slot, width)}
        >
          {at !== null && bars[at] !== undefined && (
            <>
              <strong>{bars[at].label}</strong>
              {bars[at].state !== undefined && <p>{STATES[bars[at].state]}</p>}
              {all.filter(isOn).map((one) => (
                <p key={one.name}>
                  <span>
                    <Swatch of={one} isLine={isOfLines || lines.includes(one)} />
                    {one.title}
                  </span>{' '}
                  <b>{textIn(bars[at]!, one.name)}</b>
                </p>
              ))}
              {bars[at].changes?.map((text) => (
                <p key={text} class="marked">
                  {text}
                </p>
              ))}
            </>
          )}
        </div>
      </div>
      <details>
        <summary>Table: {title}</summary>
        <Table
          caption={title}
          keyOf={(bar: Bar) => bar.label}
          rows={bars.filter(({ state }, i) => totals[i]! > 0 || state === 'unknown').reverse()}
          columns={[
            {
              title: 'Time',
              isName: true,
              cell: ({ label, path }: Bar) => (path === undefined ? label : <a href={hrefOf(path)}>{label}</a>),
            },
            ...all.map(({ name, title }) => ({ title, isNumber: true, cell: (bar: Bar) => textIn(bar, name) })),
          ]}
        />
        {bars.every(({ state }, i) => totals[i] === 0 && state !== 'unknown') && (
          <p class="muted">Nothing happened in this time.</p>
        )}
      </details>
    </figure>
  );
}

function Swatch({ of: { color, isStriped }, isLine }: { of: Series; isLine: boolean }) {
  return (
    <svg class="swatch" viewBox="0 0 12 12" aria-hidden="true">
      {isLine ? (
        <path d="M0 6H12" class="line" stroke-dasharray={isStriped ? DASHES : undefined} stroke={`var(${color})`} />
      ) : (
        <rect width="12" height="12" rx="2" fill={`var(${color})`} />
      )}
      {!isLine && isStriped && <path d="M0 12 12 0M-3 3 3-3M9 15 15 9" stroke="var(--surface)" stroke-width={2.2} />}
    </svg>
  );
}

/** Where the text of a bar stands: on that side of it which has more room. @param x where the bar begins, of `width` */
function besideBar(x: number, slot: number, width: number): Readonly<Record<string, string>> {
  return x < width / 2 ? { left: `${(100 * (x + slot)) / width}%` } : { right: `${100 - (100 * x) / width}%` };
}

function sumOf(bars: readonly Bar[], name: string): number {
  return bars.reduce((sum, { values }) => sum + (values[name] ?? 0), 0);
}

/** A round number of which the half is round too, at least `value` and at least 1. */
function niceCeiling(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const factors = power === 1 ? [1, 2, 4, 6, 8, 10] : [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10];
  return factors.map((factor) => Math.round(factor * power)).find((nice) => nice >= value)!;
}

function shortText(value: number): string {
  if (value >= 1_000_000) return `${value / 1_000_000}M`;
  if (value >= 10_000) return `${value / 1_000}k`;
  return String(value);
}

/** The bars that have a label: the first, the last, and some between them. */
function ticksOf(bars: readonly Bar[], parts: number): readonly number[] {
  const last = bars.length - 1;
  return last < 0 ? [] : [...new Set(Array.from({ length: parts + 1 }, (_, i) => Math.round((last * i) / parts)))];
}

/** The width of the drawing in pixels, so that its text has the same size on every screen. */
function useWidth(frame: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(720);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.round(entry!.contentRect.width))));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** How much of a limit is used, as a bar and in words. */
export function Meter({ label, used, limit }: { label: string; used: number; limit: number }) {
  const share = limit === 0 ? 1 : Math.min(1, used / limit);
  const color = share >= 1 ? '--banned' : share >= 0.9 ? '--refused' : '--admitted';
  return (
    // biome-ignore lint/a11y/useSemanticElements: no style that all browsers know draws the bar of a meter
    <span
      class="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(limit, 1)}
      aria-valuenow={Math.min(used, limit)}
      aria-valuetext={`${countText(used)} of ${countText(limit)}`}
    >
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect width="100" height="8" fill="var(--sunken)" />
        <rect width={share * 100} height="8" class="meter-used" fill={`var(${color})`} />
      </svg>
    </span>
  );
}
