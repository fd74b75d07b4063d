import type { CalendarForm } from '../model/plan.ts';

/** A period of a calendar window, Unix milliseconds: from `startsAtMs`, up to and without `endsAtMs`. */
interface Period {
  readonly startsAtMs: number;
  readonly endsAtMs: number;
}

const HOUR_MS = 3_600_000;

const calendars = new Map<string, Calendar>();

/** The calendar of a form: always the same one. @throws RangeError if the zone is unknown */
export function calendarOf(form: CalendarForm): Calendar {
  const name = `${form.unit} ${form.zone} ${form.anchor}`;
  const known = calendars.get(name) ?? new Calendar(form);
  calendars.set(name, known);
  return known;
}

/**
 * The hours, days, weeks or months of a time zone. Periods follow each other without a gap: a day of 23 or 25 hours is one
 * period. Weeks begin on Monday (ISO 8601).
 */
export class Calendar {
  readonly form: CalendarForm;
  /** The period that the last call returned: nearly all calls ask about the present. */
  #last: Period = { startsAtMs: 0, endsAtMs: 0 };

  /** @throws RangeError if the zone is unknown */
  constructor(form: CalendarForm) {
    this.form = form;
    this.#find(0);
  }

  /** The period that contains an instant, Unix milliseconds. */
  periodAt(ms: number): Period {
    if (ms < this.#last.startsAtMs || ms >= this.#last.endsAtMs) this.#last = this.#find(ms);
    return this.#last;
  }

  /** The instants at which three periods begin, and the end of the last: that of `ms`, the one before and the one after. */
  instantsAround(ms: number): number[] {
    const { startsAtMs, endsAtMs } = this.periodAt(ms);
    return [this.periodAt(startsAtMs - 1).startsAtMs, startsAtMs, endsAtMs, this.periodAt(endsAtMs).endsAtMs];
  }

  #find(ms: number): Period {
    const at = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(this.form.zone);
    if (this.form.unit === 'hour') return hourOf(at);
    const [first, next] = this.#datesOf(at.toPlainDate());
    return { startsAtMs: this.#startOf(first), endsAtMs: this.#startOf(next) };
  }

  /** The first day of the period with this date, and of the next one. */
  #datesOf(date: Temporal.PlainDate): [Temporal.PlainDate, Temporal.PlainDate] {
    if (this.form.unit === 'day') return [date, date.add({ days: 1 })];
    if (this.form.unit === 'week') {
      const monday = date.subtract({ days: date.dayOfWeek - 1 });
      return [monday, monday.add({ days: 7 })];
    }
    const month = date.toPlainYearMonth();
    const first = this.#firstOf(month);
    return Temporal.PlainDate.compare(date, first) < 0
      ? [this.#firstOf(month.subtract({ months: 1 })), first]
      : [first, this.#firstOf(month.add({ months: 1 }))];
  }

  #firstOf(month: Temporal.PlainYearMonth): Temporal.PlainDate {
    return month.toPlainDate({ day: Math.min(this.form.anchor, month.daysInMonth) });
  }

  /** The first instant of a day that begins with a gap, as in zones that change their clocks at midnight. */
  #startOf(date: Temporal.PlainDate): number {
    return date.toZonedDateTime(this.form.zone).epochMilliseconds;
  }
}

/** From one full hour on the clock to the next. A shift of the clock within an hour, as by 30 minutes, ends it. */
function hourOf(at: Temporal.ZonedDateTime): Period {
  const offsetMs = at.offsetNanoseconds / 1e6;
  const startsAtMs = Math.floor((at.epochMilliseconds + offsetMs) / HOUR_MS) * HOUR_MS - offsetMs;
  const endsAtMs = startsAtMs + HOUR_MS;
  const before = at.add({ milliseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds ?? startsAtMs;
  const after = at.getTimeZoneTransition('next')?.epochMilliseconds ?? endsAtMs;
  return { startsAtMs: Math.max(startsAtMs, before), endsAtMs: Math.min(endsAtMs, after) };
}
