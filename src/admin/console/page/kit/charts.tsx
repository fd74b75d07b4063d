import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Table } from './data-table.tsx';
import { countText } from './format.tsx';

/** One kind of value in a chart. Its place in the stack, its pattern and its name distinguish it, not its colour alone. */
export interface Series {
  readonly name: string;
  readonly title: string;
  /** The custom property of its colour: `--admitted`. */
  readonly color: string;
  /** Drawn as stripes. */
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
  readonly values: Readonly<Record<string, number>>;
}

interface BarChartProps {
  readonly id: string;
  /** What the chart shows, for its heading in the table and for screen readers. */
  readonly title: string;
  readonly series: readonly Series[];
  /** Oldest first. */
  readonly bars: readonly Bar[];
  /** What one bar is: `5 seconds`. */
  readonly step: string;
}

const HEIGHT = 190;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 8;

/**
 * Stacked bars over time. The arrow keys and the pointer move along the bars, the line below says what the chosen one
 * holds, and a table has the same numbers.
 */
export function BarChart({ id, title, series, bars, step }: BarChartProps) {
  const [chosen, setChosen] = useState<number | null>(null);
  const frame = useRef<HTMLElement>(null);
  const width = useWidth(frame);
  const totals = bars.map(({ values }) => series.reduce((sum, { name }) => sum + (values[name] ?? 0), 0));
  const highest = niceCeiling(Math.max(0, ...totals));
  const slot = (width - LEFT) / Math.max(1, bars.length);
  const yOf = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / highest);
  const move = (event: KeyboardEvent) => {
    const at = chosen ?? bars.length - 1;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setChosen(Math.min(bars.length - 1, Math.max(0, next)));
  };
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGSVGElement).getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width - LEFT;
    setChosen(x < 0 ? null : Math.min(bars.length - 1, Math.floor(x / slot)));
  };
  const shown = chosen === null ? null : (bars[Math.min(chosen, bars.length - 1)] ?? null);
  const sums = series.map(({ title, name }) => `${title} ${countText(sumOf(bars, name))}`).join(', ');
  return (
    <figure class="chart" ref={frame}>
      <ul class="row small before legend">
        {series.map(({ name, title, color, isStriped }) => (
          <li key={name}>
            <svg class="swatch" viewBox="0 0 12 12" aria-hidden="true">
              <rect width="12" height="12" rx="2" fill={`var(${color})`} />
              {isStriped && <path d="M0 12 12 0M-3 3 3-3M9 15 15 9" class="stripe" />}
            </svg>
            {title} <span class="muted">{countText(sumOf(bars, name))}</span>
          </li>
        ))}
      </ul>
      <svg
        class="plot"
        viewBox={`0 0 ${width} ${HEIGHT}`}
        role="img"
        tabindex={0}
        aria-label={`${title}: ${sums}. The arrow keys move along the bars.`}
        aria-describedby={`${id}-readout`}
        onKeyDown={move}
        onPointerMove={point}
        onPointerLeave={() => setChosen(null)}
        onBlur={() => setChosen(null)}
      >
        <defs>
          <pattern
            id={`${id}-stripes`}
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <path d="M0 0V6" class="stripe" />
          </pattern>
        </defs>
        {[0, 0.5, 1].map((part) => {
          const y = yOf(highest * part);
          return (
            <g key={part}>
              <path d={`M${LEFT} ${y}H${width}`} class="grid" />
              <text x={LEFT - 8} y={y + 4} text-anchor="end">
                {shortText(highest * part)}
              </text>
            </g>
          );
        })}
        {bars.map(({ values }, i) => {
          let below = 0;
          const x = LEFT + i * slot;
          return (
            <g key={i} class={i === chosen ? 'chosen' : ''}>
              <rect class="column" x={x} y={TOP} width={slot} height={HEIGHT - TOP - BOTTOM} />
              {series.map(({ name, color, isStriped }) => {
                const value = values[name] ?? 0;
                if (value === 0) return null;
                const y = yOf(below + value);
                const height = Math.max(1, yOf(below) - y);
                below += value;
                const box = { x: x + slot * 0.12, y, width: slot * 0.76, height };
                return (
                  <>
                    <rect {...box} fill={`var(${color})`} />
                    {isStriped && <rect {...box} fill={`url(#${id}-stripes)`} />}
                  </>
                );
              })}
            </g>
          );
        })}
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
      <p class="readout" id={`${id}-readout`} aria-live="polite">
        {shown === null ? (
          <span class="muted">One bar is {step}.</span>
        ) : (
          <>
            <strong>{shown.label}</strong>{' '}
            {series.map(({ name, title }) => `${title} ${countText(shown.values[name] ?? 0)}`).join(' · ')}
          </>
        )}
      </p>
      <details>
        <summary>Table: {title}</summary>
        <Table
          caption={title}
          keyOf={(bar: Bar) => bar.label}
          rows={bars.filter((_, i) => totals[i]! > 0).reverse()}
          columns={[
            { title: 'Time', isName: true, cell: (bar: Bar) => bar.label },
            ...series.map(({ name, title }) => ({
              title,
              isNumber: true,
              cell: (bar: Bar) => countText(bar.values[name] ?? 0),
            })),
          ]}
        />
        {totals.every((total) => total === 0) && <p class="muted">Nothing happened in this time.</p>}
      </details>
    </figure>
  );
}

function sumOf(bars: readonly Bar[], name: string): number {
  return bars.reduce((sum, { values }) => sum + (values[name] ?? 0), 0);
}

/** 1, 2, 4, 6 or 8 times a power of ten, at least `value` and at least 1. */
function niceCeiling(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((nice) => nice >= value)!;
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
  const level = share >= 1 ? 'full' : share >= 0.9 ? 'near' : 'fine';
  return (
    // biome-ignore lint/a11y/useSemanticElements: no style that all browsers know draws the bar of a meter
    <span
      class={`meter ${level}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(limit, 1)}
      aria-valuenow={Math.min(used, limit)}
      aria-valuetext={`${countText(used)} of ${countText(limit)}`}
    >
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect width="100" height="8" class="meter-ground" />
        <rect width={share * 100} height="8" class="meter-used" />
      </svg>
    </span>
  );
}
