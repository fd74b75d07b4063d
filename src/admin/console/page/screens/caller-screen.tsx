import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Act, Go } from '../kit/act.tsx';
import { auditHref, CustomerLink, isCustomer } from '../kit/callers.tsx';
import { SelectField } from '../kit/dialog.tsx';
import { plural, say, Time } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Page, Section } from '../kit/page.tsx';
import { NotKnown } from '../kit/seen.tsx';
import { calm, Empty, Problem } from '../kit/states.tsx';
import { UseSection } from '../kit/use.tsx';
import { Limits } from '../limits.tsx';
import { decoded, hrefOf, navigate, usePlace } from '../place.ts';
import { derived, ifKnown } from '../reading.ts';
import { ApiError } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { ChangePage, Key, KeyOrCustomer, Plan, ShownCustomer, ShownKey, Usage } from '../types.ts';
import { type Action, Actions, CallerCard, useFurtherActions } from './caller-card.tsx';
import { About, CustomerState, KeyState, StandingBadge, SuspendedText } from './caller-facts.tsx';
import { COUNTS_MS, useCallerRecord } from './caller-record.ts';
import { hasEnded, isSuspended, refusalOf, standingOf, stateOf, useCustomerStandings } from './caller-state.ts';
import { actorText } from './change-columns.tsx';
import { Deprecated, Secrets } from './key-details.tsx';
import { KeyTable } from './key-table.tsx';
import { LastChanges } from './last-changes.tsx';
import { LastRefusals } from './last-refusals.tsx';
import { WhereFrom } from './where-from.tsx';

const OpenedDialog = later(async () => (await import('./opened-dialog.tsx')).OpenedDialog);

type Secret = Key['secrets'][number];

/** The record as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface DialogState {
  readonly dialog: string;
  readonly of: ShownKey | ShownCustomer | null;
  readonly etag: string | null;
  /** That is to be ended; null for the other dialogs. */
  readonly secret: Secret | null;
  /** How many keys of a customer were banned. */
  readonly banned: number;
}

type Open = (dialog: string, secret?: Secret) => void;

/**
 * `/keys/ID` and `/customers/ID`: all about one key, or about a customer and what its keys share, or about a token caller (`jwt_…`), of
 * which only the counts and the history are known.
 */
export function CallerScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const what = isCustomer(id) ? 'customer' : 'key';
  const hasTokens = id.startsWith('jwt_');
  const list = { title: what === 'key' ? 'Keys' : 'Customers', path: `/${what}s` };
  const read = useCallerRecord<ShownKey | ShownCustomer>(id);
  const { record, plans, usage, use, recent, routes, changes, isGone, readAll, outage } = read;
  const plan = usePlace().query.get('plan');
  const [opened, setOpened] = useState<DialogState | null>(null);
  const ofKeys = useCustomerStandings(what === 'key' || isGone ? [] : [id], COUNTS_MS)(id);
  const [data, counts] = [ifKnown(record.reading), ifKnown(usage.reading)];
  const banned = ifKnown(ofKeys)?.banned ?? 0;
  const open: Open = (dialog, secret = null!) => setOpened({ dialog, of: data, etag: record.etag, secret, banned });
  if (isGone) {
    const message = `There is no ${what} with this id. It may have been deleted.`;
    return (
      <Page title={id} back={list}>
        <Problem error={new ApiError(404, 'not_found', message)} />
        <p class="row">
          <Go text={`All ${what}s`} path={list.path} />{' '}
          <a class="button" href={auditHref(id)}>
            Its records in Audit
          </a>
        </p>
      </Page>
    );
  }
  const name = data?.name ?? null;
  const key = data !== null && 'secrets' in data ? data : null;
  const ended = data === null ? null : endedText(data, ifKnown(changes.reading));
  const planName = data?.plan === null ? 'unknown' : (data?.plan ?? counts?.plan);
  const planInForce = ifKnown(plans.reading)?.plans.find((one) => one.name === (counts?.plan ?? data?.plan));
  // The record that cannot be read is named above.
  const fault = calm(record).error;
  const hasLimits = ended === null && (hasTokens ? plan !== null : what === 'customer' || fault === null);
  const standing = derived(usage.reading, standingOf);
  const state =
    record.reading.state !== 'known' ? (
      hasTokens ? (
        <StandingBadge of={standing} />
      ) : (
        <NotKnown of={record.reading} />
      )
    ) : 'secrets' in record.reading.value ? (
      <KeyState of={record.reading.value} standing={standing} />
    ) : (
      <CustomerState of={record.reading.value} standing={ofKeys} counts={usage.reading} />
    );
  return (
    <Page
      title={name ?? id}
      back={list}
      beside={<CallerActions id={id} of={data} usage={counts} banned={banned} open={open} />}
    >
      {outage && <Problem error={outage} />}
      {fault !== null && <Problem error={fault} retry={record.reload} />}
      <div class="with-aside">
        <div>
          <CallerCard
            id={id}
            state={state}
            ended={ended}
            facts={
              <>
                {planName !== undefined && <span>{say`plan ${<strong>{planName}</strong>}`}</span>}
                {key?.customer && <span>{say`of ${<CustomerLink {...key.customer} />}`}</span>}
              </>
            }
            usage={usage.reading}
            recent={recent}
          />
          {hasTokens && <PlanOfTokens id={id} plan={plan} plans={ifKnown(plans.reading)?.plans ?? []} />}
          {hasLimits && (
            <Limits
              of={{ id, name }}
              usage={calm(usage)}
              plan={planInForce}
              isLive={data !== null && stateOf(data) !== 'revoked'}
            />
          )}
        </div>
        {data !== null && (
          <aside aria-label={`About the ${what}`}>
            <About of={data} />
          </aside>
        )}
        <div class="below">
          {data !== null && 'keys' in data && <KeysOfIt of={data} open={open} />}
          <LastRefusals id={id} recent={recent} />
          {key !== null && <WhereFrom id={id} />}
          {key !== null && <Secrets of={key} open={open} />}
          <UseSection id={id} use={use} usage={counts} />
          {what === 'key' && <Deprecated routes={calm(routes)} />}
        </div>
      </div>
      <LastChanges id={id} what={what} changes={calm(changes)} />
      {opened !== null && (
        <OpenedDialog
          {...opened}
          id={id}
          usage={counts}
          plans={ifKnown(plans.reading)?.plans ?? null}
          onClose={() => setOpened(null)}
          onChanged={readAll}
        />
      )}
    </Page>
  );
}

/** The status of requests with a key, by the state of its customer; 401 for any other. */
const STATUS_OF_CUSTOMER: Readonly<Record<string, number>> = { suspended: 403, unreadable: 500 };

/** Why a key, or no key of a customer, admits a request, whatever the limits are; null if it may. */
function endedText(record: ShownKey | ShownCustomer, changes: ChangePage | null): ComponentChildren {
  const key = 'secrets' in record ? record : null;
  const refused = (status: number, why: ComponentChildren) =>
    say`Each request${key === null && ' of its keys'} gets a ${status}: ${why}`;
  const state = stateOf(record);
  if (state === 'suspended') return refused(403, say`suspended since ${<SuspendedText {...record.suspended!} />}`);
  if (state === 'expired') return refused(401, say`expired ${<Time at={record.expiresAt!} />}.`);
  const why = key === null ? null : refusalOf(key);
  if (why === null) return null;
  if (state === 'active') return refused(STATUS_OF_CUSTOMER[key!.customer!.state] ?? 401, `${why}.`);
  const revoked = changes?.changes.find(({ action, outcome }) => action === 'key.revoke' && outcome === 'done');
  return refused(
    401,
    <>
      revoked <Time at={key!.revokedAt!} />
      {revoked && say` by ${<bdi>{actorText(revoked.actor)}</bdi>}`}.
    </>,
  );
}

interface ActionsProps {
  readonly id: string;
  /** Null for a caller with tokens, whose ban alone can be changed, and while it is unknown. */
  readonly of: KeyOrCustomer | null;
  readonly usage: Usage | null;
  readonly banned: number;
  readonly open: Open;
}

function CallerActions({ id, of, usage, banned, open }: ActionsProps) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const isBanned = usage?.ban != null;
  const further = useFurtherActions(id, isBanned);
  const key = of !== null && 'secrets' in of ? of : null;
  const state = of === null ? 'unknown' : stateOf(of);
  const isLive = state !== 'revoked' && state !== 'unknown';
  const suspends = of !== null && !isSuspended(of) && (key === null || state === 'active');
  const actions: (Action | false)[] = [
    mayChange && (isBanned || banned > 0) && ['lift', banned > 0 ? 'Lift the bans…' : 'Lift the ban…', 'primary'],
    mayChange && isLive && of?.suspended !== undefined && ['resume', 'Resume…', 'primary'],
    mayChange && isLive && ['topup', 'Top up…', ''],
    mayChange && isLive && ['reset', 'Reset usage…', ''],
    mayChange && isLive && ['update', 'Edit…', ''],
    mayChange && key !== null && isLive && state !== 'expired' && ['rotate', 'Rotate the secret…', 'more'],
    mayChange && key !== null && isLive && ['move', 'Move…', 'more'],
    mayChange && suspends && ['suspend', 'Suspend…', 'more'],
    mayChange && key !== null && isLive && ['revoke', 'Revoke…', 'final'],
    mayDelete && of !== null && (key === null || hasEnded(key)) && ['delete', 'Delete…', 'final'],
    ...(isLive ? further : []),
  ];
  return <Actions of={actions} open={open} />;
}

/** The keys of a customer that are not revoked, oldest first. */
function KeysOfIt({ of: { id, keys, keysCursor }, open }: { of: ShownCustomer; open: Open }) {
  const mayCreate = useMay('admin');
  const all = (
    <a href={hrefOf(`/keys?customer=${encodeURIComponent(id)}&all=true`)}>All, with those that are revoked</a>
  );
  return (
    <Section title="Keys" note={all}>
      {keys.length === 0 ? (
        <Empty title="No keys yet.">
          <p>Create one here, or move a key to this customer on the screen of the key.</p>
        </Empty>
      ) : (
        <KeyTable keys={keys} isOfOne={true} />
      )}
      {keysCursor !== null && <p class="muted">The first {plural(keys.length, 'key')}; there are more.</p>}
      {mayCreate && (
        <p class="row after">
          <Act text="Create key…" on={() => open('create-key')} />
        </p>
      )}
    </Section>
  );
}

function PlanOfTokens({ id, plan, plans }: { id: string; plan: string | null; plans: readonly Plan[] }) {
  const names = [...plans.map(({ name }) => name), ...(plan === null ? [] : [plan])];
  const choose = (event: Event) => {
    const chosen = (event.target as HTMLSelectElement).value;
    navigate(`/keys/${encodeURIComponent(id)}${chosen && `?plan=${encodeURIComponent(chosen)}`}`, 'replace');
  };
  return (
    <div class="panel">
      <SelectField
        id="token-plan"
        label="Plan"
        hint="This caller has tokens, and only they name its plan. Choose it to see the limits."
        value={plan ?? ''}
        options={[['', 'Choose a plan…'], ...[...new Set(names)].map((name) => [name, name] as const)]}
        onChange={choose}
      />
    </div>
  );
}
