import { useState } from 'preact/hooks';
import { changeQuery } from '../place.ts';
import { Fault } from './act.tsx';
import { MomentField, momentFieldText, momentIn, PAST } from './moment-field.tsx';

/**
 * The fields of a span of time of one's own, in the reader's zone, which stand in the address as `from` and `to`.
 * @param from RFC 3339, or empty; @param to empty: the present
 */
export function RangeForm({ from, to }: { from: string; to: string }) {
  const [fault, setFault] = useState<string | null>(null);
  const text = (at: string) => (Number.isNaN(Date.parse(at)) ? '' : momentFieldText(new Date(at)));
  const submit = (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form);
    const [first, last] = ['from', 'to'].map((name) => momentIn(String(data.get(name))));
    const isFound = form.checkValidity() && first != null;
    setFault(
      !isFound
        ? 'Give a beginning such as 2026-12-31 18:00, and an end or none.'
        : last && last <= first
          ? 'The end is not after the beginning.'
          : null,
    );
    if (isFound && !(last && last <= first)) changeQuery({ from: first.toISOString(), to: last?.toISOString() ?? '' });
  };
  return (
    <form class="row" key={`${from} ${to}`} noValidate onSubmit={submit}>
      <MomentField id="from" name="from" label="From" value={text(from)} often={PAST} />
      <MomentField id="to" name="to" label="To" empty="until now" value={text(to)} often={PAST} />
      <button type="submit">Show</button>
      <Fault of={fault} />
    </form>
  );
}
