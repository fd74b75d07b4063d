import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

// Numbers and moments as text. Times are in the reader's zone; the tooltip has UTC.

const count = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const rate = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayAndClock = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});
const utcDay = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

export function countText(value: number | 'unlimited'): string {
  return value === 'unlimited' ? 'unlimited' : count.format(value);
}

export function rateText(value: number): string {
  return value >= 100 ? count.format(value) : rate.format(value);
}

/** A part of all, from 0 to 1: `89 %`, rounded down so that 100 % is all of it. */
export function shareText(share: number): string {
  return share > 0 && share < 0.01 ? 'under 1 %' : `${Math.floor(share * 100)} %`;
}

/** A part of a whole: `12.5 %`. */
export function percentText(part: number, whole: number): string {
  if (whole === 0) return '–';
  const percent = (100 * part) / whole;
  return `${percent > 0 && percent < 0.1 ? '< 0.1' : rate.format(percent)}${NO_BREAK}%`;
}

export function latencyText(ms: number): string {
  if (ms >= 1_000) return `${rate.format(ms / 1_000)}${NO_BREAK}s`;
  return `${rate.format(ms >= 100 ? Math.round(ms) : ms)}${NO_BREAK}ms`;
}

const bytes = new Intl.NumberFormat('en', { notation: 'compact', style: 'unit', unit: 'byte', unitDisplay: 'narrow' });

/** `1.5MB`. */
export function bytesText(value: number): string {
  return bytes.format(value);
}

/** `1 key`, `2 keys`. */
export function plural(value: number, noun: string, nouns = `${noun}s`): string {
  return `${countText(value)} ${value === 1 ? noun : nouns}`;
}

/** How much of a list is shown: `All 38 keys shown`, `50 keys shown` if there are more, `1 key shown`. */
export function shownText(count: number, noun: string, isAll: boolean): string {
  return `${isAll && count > 1 ? 'All ' : ''}${plural(count, noun)} shown`;
}

/** `+12 %` against the previous period. */
export function changeText(now: number, then: number): string {
  if (then === 0) return now === 0 ? 'as before' : 'none before';
  const percent = Math.round((100 * (now - then)) / then);
  return percent === 0 ? 'as before' : `${percent > 0 ? '+' : '−'}${countText(Math.abs(percent))} %`;
}

const UNITS = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const;

/** Between a number and its unit, where no line may end. */
const NO_BREAK = '\u00a0';

/** A length as its two largest units: `2 h 5 min`; from two weeks on in days. */
export function lengthText(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  if (rest === 0) return `0${NO_BREAK}s`;
  if (rest >= 14 * 86_400) return `${countText(Math.floor(rest / 86_400))}${NO_BREAK}d`;
  const parts: string[] = [];
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(rest / size);
    if (whole === 0) {
      if (parts.length > 0) break;
      continue;
    }
    parts.push(`${whole}${NO_BREAK}${unit}`);
    rest -= whole * size;
    if (parts.length === 2) break;
  }
  return parts.join(NO_BREAK);
}

/**
 * The time that is left, in whole days rounded up from two days on, as the log and the commands have it (src/io/time-text.ts): a
 * sunset in 26.1 days is in 27 d everywhere.
 */
export function leftText(seconds: number): string {
  return seconds >= 2 * 86_400
    ? `${countText(Math.ceil(seconds / 86_400))}${NO_BREAK}d`
    : lengthText(Math.ceil(seconds));
}

/** The reader's zone: `Europe/Berlin`. */
export function ownZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** A moment of the API: RFC 3339, or Unix seconds. */
export type Moment = string | number;

export function millisecondsOf(at: Moment): number {
  return typeof at === 'number' ? at * 1_000 : Date.parse(at);
}

/** The moment in the reader's zone: the time alone if it is within today. */
export function momentText(at: Moment): string {
  const date = new Date(millisecondsOf(at));
  if (Number.isNaN(date.getTime())) return String(at);
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : dayAndClock.format(date);
}

/** A moment of this page's clock, Unix milliseconds. */
export function clockText(atMs: number): string {
  return momentText(new Date(atMs).toISOString());
}

/** `2026-11-23 12:04:31 UTC`, for a reader in another zone. @param at a valid moment */
export function utcText(at: Moment): string {
  return new Date(millisecondsOf(at)).toISOString().replace(/^(.*)T(.{8}).*/, '$1 $2 UTC');
}

/** A text with moments of utcText, within which no line ends: the hyphens of a date would let one end there. */
export function WholeMoments({ text }: { text: string }) {
  return text
    .split(/(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)/)
    .map((part, i) => (i % 2 === 0 ? part : <span class="nowrap">{part}</span>));
}

/** The moment to the minute in a zone, which it names: `15 Dec 2026, 00:00 Europe/Berlin`. */
function zonedText(at: Moment, timeZone: string): string {
  try {
    const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone });
    return `${format.format(millisecondsOf(at))} ${timeZone}`;
  } catch {
    // The gateway knows a zone that this browser does not.
    return utcText(at);
  }
}

/** A moment, with UTC as its tooltip. @param zone that it belongs to; left out, it is in the reader's zone, which is not named */
export function Time({ at, dayOnly = false, zone }: { at: Moment; dayOnly?: boolean; zone?: string | undefined }) {
  const date = new Date(millisecondsOf(at));
  if (Number.isNaN(date.getTime())) return <span>{String(at)}</span>;
  const text = zone !== undefined ? zonedText(at, zone) : dayOnly ? day.format(date) : momentText(at);
  return (
    <time datetime={date.toISOString()} title={utcText(at)}>
      {text}
    </time>
  );
}

/** A day of UTC, which differs from a day in the reader's zone. @param of `2026-11-23` */
export function UtcDay({ of }: { of: string }) {
  return <time datetime={of}>{utcDay.format(Date.parse(of))} (UTC)</time>;
}

/** A sentence with elements in it. */
export function say(texts: TemplateStringsArray, ...parts: readonly ComponentChildren[]): ComponentChildren {
  return texts.flatMap((text, i) => [text, parts[i]]);
}

/** A sentence of the gateway, with its times, large numbers and code formatted as on the rest of the page. */
export function Prose({ text }: { text: string }) {
  return (
    <bdi>
      {text.split(/(`[^`]+`|\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{4,}\b)/).map((part, i) => {
        if (i % 2 === 0) return part;
        if (part.startsWith('`')) return <code>{part.slice(1, -1)}</code>;
        return part.endsWith('Z') ? <Time at={part} /> : countText(Number(part));
      })}
    </bdi>
  );
}

/** The present in Unix milliseconds, new each second while `isRunning`. */
export function useNow(isRunning = true): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}

/** A moment ahead, with how long it takes until then: `12:04:31 (in 34 s)`. @param zone as of Time */
export function Until({ at, zone }: { at: Moment; zone?: string | undefined }) {
  const now = useNow();
  const seconds = (millisecondsOf(at) - now) / 1_000;
  return (
    <span class="until">
      <Time at={at} zone={zone} /> <span class="muted">{seconds > 0 ? `in ${leftText(seconds)}` : 'now'}</span>
    </span>
  );
}

/** `1st`, `2nd`. */
export function ordinal(number: number): string {
  const last = number % 100 > 10 && number % 100 < 14 ? 0 : number % 10;
  return `${number}${['th', 'st', 'nd', 'rd'][last] ?? 'th'}`;
}
