import type { ComponentChildren } from 'preact';
import { type Column, Lines } from '../kit/data-table.tsx';
import { countText, Time } from '../kit/format.tsx';
import { Badge, type BadgeKind } from '../kit/page.tsx';
import type { Change } from '../types.ts';

// A recorded change in words: what was done, by whom, with which outcome and difference.

/** What an action is called: `Revoke key` for `key.revoke`, unless it has another name. */
export function actionText(action: string): string {
  const [noun = '', verb = ''] = action.split('.');
  return NAMES[action] ?? `${verb.charAt(0).toUpperCase()}${verb.slice(1)} ${noun}`;
}

const NAMES: Readonly<Record<string, string>> = {
  'key.update': 'Edit key',
  'customer.update': 'Edit customer',
  'key.rotate': 'Rotate secret',
  'key.topup': 'Top up key',
  'customer.topup': 'Top up customer',
  'topup.undo': 'Undo top-up',
  'key.import': 'Import keys',
  'key.apply': 'Apply keys.yaml',
  'key.restore': 'Restore keys',
  'admin.access': 'Another request',
};

const OUTCOMES: Readonly<Record<Change['outcome'], readonly [title: string, kind: BadgeKind]>> = {
  done: ['Done', 'done'],
  unchanged: ['Was so already', 'plain'],
  repeated: ['Repeated', 'plain'],
  refused: ['Not made', 'warn'],
  unknown: ['Unknown', 'warn'],
  lost: ['Undone by a failover', 'bad'],
};

/** The columns that describe a change, in Audit and on the screens of a key and a customer. */
export const CHANGE_COLUMNS: readonly Column<Change>[] = [
  { title: 'Time', cell: ({ time }) => <Time at={time} /> },
  { title: 'Actor', cell: ({ actor }) => <ActorName {...actor} /> },
  { title: 'Action', isName: true, cell: ({ action }) => actionText(action) },
  { title: 'Outcome', cell: (change) => <Outcome {...change} /> },
  { title: 'What changed', cell: (change) => <Difference {...change} /> },
];

function ActorName(actor: Change['actor']) {
  const { kind } = actor;
  return (
    <Lines note={kind === 'shell' ? `shell on ${actor.host}` : KINDS[kind]}>
      <bdi class={kind === 'file' ? 'nowrap' : ''}>{actorText(actor)}</bdi>
    </Lines>
  );
}

export function actorText(actor: Change['actor']): string {
  return actor.kind === 'shell' ? actor.user : actor.name;
}

const KINDS = { token: 'token', person: 'person', file: 'file' };

function Outcome({ action, outcome, code, count }: Change) {
  const isFile = outcome === 'refused' && action.endsWith('.load');
  // A later version of the gateway may have recorded an outcome that this one does not know.
  const known = OUTCOMES[outcome] ?? [outcome, 'plain'];
  const [title, kind] = isFile ? (['Refused', 'bad'] as const) : known;
  const times = count > 1 ? ` ×${countText(count)}` : '';
  return (
    <Lines note={code !== null && <code>{code}</code>}>
      <Badge kind={kind}>{`${title}${times}`}</Badge>
    </Lines>
  );
}

/** The members of a state, of which there are several kinds; none if there is no state. */
export function membersOf(state: Change['before'] | Change['after']): Readonly<Record<string, unknown>> {
  return state ?? {};
}

/** The members of the state that changed, with what they were before. */
function differencesIn({ before, after }: Pick<Change, 'before' | 'after'>) {
  const [earlier, later] = [membersOf(before), membersOf(after)];
  return [...new Set([...Object.keys(earlier), ...Object.keys(later)])]
    .map((name) => ({ name, was: earlier[name], is: later[name] }))
    .filter(({ name, was, is }) => textOf(was) !== textOf(is) || name === 'window');
}

/** The same as text. */
export function changeText(change: Pick<Change, 'before' | 'after'>): string {
  const differences = differencesIn(change).map(({ name, was, is }) => {
    const isNew = change.before === null || textOf(was) === textOf(is);
    return `${WORDS[name] ?? name} ${isNew ? '' : `${textOf(was)} → `}${textOf(is)}`;
  });
  return differences.join('; ');
}

function Difference(change: Change) {
  const differences = differencesIn(change);
  if (differences.length === 0) return <span class="muted">–</span>;
  return (
    <ul class="difference">
      {differences.map(({ name, was, is }) => {
        if (SENTENCES.includes(name) && Array.isArray(is)) {
          return (
            <li key={name} class="sentences">
              {is.map((one) => (
                <div>
                  <bdi>{one}</bdi>
                </div>
              ))}
            </li>
          );
        }
        const isSame = textOf(was) === textOf(is);
        return (
          <li key={name}>
            <span class="muted">{WORDS[name] ?? name}</span> {change.before !== null && <Value of={was} />}
            {change.before !== null && !isSame && ' → '}
            {(change.before === null || !isSame) && <Value of={is} />}
          </li>
        );
      })}
    </ul>
  );
}

/** Members that are sentences about the change. */
const SENTENCES: readonly string[] = ['changes', 'faults'];

const WORDS: Readonly<Record<string, string>> = {
  expiresAt: 'expires',
  revokedAt: 'revoked',
  secrets: 'secrets by last four',
};

function Value({ of: value }: { of: unknown }): ComponentChildren {
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return <Time at={value} />;
  return <bdi>{textOf(value)}</bdi>;
}

/** Maximum members of a list that are shown. An import names up to 1,000 keys. */
const MAX_SHOWN = 5;

function textOf(value: unknown): string {
  if (value === undefined || value === null || value === '') return 'none';
  if (typeof value === 'number') return countText(value);
  if (Array.isArray(value)) {
    const more = value.length > MAX_SHOWN ? ` and ${countText(value.length - MAX_SHOWN)} more` : '';
    return value.length === 0 ? 'none' : `${value.slice(0, MAX_SHOWN).map(textOf).join(', ')}${more}`;
  }
  if (typeof value !== 'object') return String(value);
  return (
    Object.entries(value)
      .map(([name, inner]) => `${name} ${textOf(inner)}`)
      .join(', ') || 'none'
  );
}
