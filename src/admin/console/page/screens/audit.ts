import { html } from '../html.ts';
import { CallerName } from '../kit/callers.ts';
import { Field } from '../kit/dialog.ts';
import { Choice, Filters, isRecordId, RECORD_PATTERN } from '../kit/filters.ts';
import { plural } from '../kit/format.ts';
import { ShowMore, useMore } from '../kit/more.ts';
import { useNames } from '../kit/names.ts';
import { Page } from '../kit/page.ts';
import { Empty, Shown } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import { usePlace } from '../router.ts';
import type { Change, ChangePage } from '../types.ts';
import { CHANGE_COLUMNS, membersOf } from './changes.ts';

/** What `since` takes, from the present back. */
const SPANS: readonly (readonly [since: string, title: string])[] = [
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

/** Who changed what. */
export function Audit() {
  const { query } = usePlace();
  const asked = new URLSearchParams({ limit: '50' });
  for (const name of ['key', 'actor', 'since']) {
    const value = query.get(name) ?? '';
    if (value !== '' && (name !== 'key' || isRecordId(value))) asked.set(name, value);
  }
  return html`<${Page} title="Audit">
    <${Filters} path="/audit" label="Filter the changes">
      <${Field} id="audit-key" label="Key or customer">
        <input id="audit-key" name="key" pattern=${RECORD_PATTERN} title="key_…, cus_… or jwt_…, not a secret" placeholder="key_… or cus_…" autocomplete="off" spellcheck="false" />
      </${Field}>
      <${Field} id="audit-actor" label="Actor">
        <input id="audit-actor" name="actor" placeholder="Name, or name (token)" autocomplete="off" spellcheck="false" />
      </${Field}>
      <${Choice} id="audit-since" name="since" label="Since" any="any time" options=${SPANS} />
    </${Filters}>
    <${List} path=${`/admin/audit?${asked}`} isFiltered=${asked.size > 1} />
  </${Page}>`;
}

function List({ path, isFiltered }: { path: string; isFiltered: boolean }) {
  const { first, pages, ...more } = useMore<ChangePage>(path);
  const changes = pages.flatMap(({ changes }) => changes);
  const names = useNames(changes.map(({ target }) => target));
  return html`<${Shown} of=${first} what="the changes">
    ${() =>
      changes.length === 0 && !more.hasMore
        ? html`<${Empty} title=${isFiltered ? 'No change matches these filters.' : 'No change was made yet.'}>
            <p>Changes to keys, bans, plans and settings are recorded here, those by commands and files too.</p>
          </${Empty}>`
        : html`<div>
            <${Table}
              caption="Changes, newest first"
              rows=${changes}
              keyOf=${({ id }: Change) => id}
              columns=${[
                ...CHANGE_COLUMNS.slice(0, 3),
                {
                  title: 'Target',
                  cell: ({ target, before, after }: Change) =>
                    html`<${Target} id=${target} name=${names.get(target ?? '') ?? membersOf(after).name ?? membersOf(before).name} />`,
                },
                ...CHANGE_COLUMNS.slice(3),
                {
                  title: 'Request id',
                  cell: ({ requestId, clientAddress }: Change) =>
                    html`<span class="two-lines roomy">
                      ${requestId === null ? '–' : html`<code>${requestId}</code>`}<span class="muted">${clientAddress}</span>
                    </span>`,
                },
              ]}
            />
            <${ShowMore} shown=${plural(changes.length, 'change')} ...${more} />
          </div>`}
  </${Shown}>`;
}

function Target({ id, name }: { id: string | null; name: unknown }) {
  if (id === null) return '–';
  if (!isRecordId(id)) return html`<code>${id}</code>`;
  return html`<${CallerName} id=${id} name=${typeof name === 'string' ? name : null} owner=${null} />`;
}
