import { useState } from 'preact/hooks';
import { auditHref, CustomerLink } from '../kit/callers.tsx';
import { Field } from '../kit/dialog.tsx';
import { Time } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Page } from '../kit/page.tsx';
import { NotKnown } from '../kit/seen.tsx';
import { calm, Problem } from '../kit/states.tsx';
import { UseSection } from '../kit/use.tsx';
import { Limits } from '../limits.tsx';
import { decoded, hrefOf, navigate, usePlace } from '../place.ts';
import { derived, ifKnown } from '../reading.ts';
import { ApiError } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { ChangePage, Key, Plan, ShownKey, Usage } from '../types.ts';
import { type Action, Actions, CallerCard, useFurtherActions } from './caller-card.tsx';
import { KeyState, StandingBadge, SuspendedText } from './caller-facts.tsx';
import { useCallerRecord } from './caller-record.ts';
import { hasEnded, refusalOf, standingOf, stateOf } from './caller-state.ts';
import { actorText } from './change-columns.tsx';
import { About, Deprecated, Secrets } from './key-details.tsx';
import { LastChanges } from './last-changes.tsx';
import { LastRefusals } from './last-refusals.tsx';
import { WhereFrom } from './where-from.tsx';

const OpenedKeyDialog = later(async () => (await import('./opened-dialog.tsx')).OpenedKeyDialog);

const LIST = { title: 'Keys', path: '/keys' };

type Secret = Key['secrets'][number];

/** The key as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface DialogState {
  readonly dialog: string;
  readonly of: Key | null;
  readonly etag: string | null;
  /** That is to be ended; null for the other dialogs. */
  readonly secret: Secret | null;
}

type Open = (dialog: string, secret?: Secret) => void;

/** `/keys/ID`: all about one key, or about a token caller (`jwt_…`), of which only the counts and the history are known. */
export function KeyScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const read = useCallerRecord<ShownKey>(id);
  const { record: key, plans, usage, use, recent, routes, changes, isGone, readAll, outage } = read;
  const hasTokens = id.startsWith('jwt_');
  const plan = usePlace().query.get('plan');
  const [opened, setOpened] = useState<DialogState | null>(null);
  const [data, counts] = [ifKnown(key.reading), ifKnown(usage.reading)];
  const name = data?.name ?? null;
  const open: Open = (dialog, secret) => setOpened({ dialog, of: data, etag: key.etag, secret: secret ?? null });
  if (isGone) {
    return (
      <Page title={id} back={LIST}>
        <Problem error={new ApiError(404, 'not_found', 'There is no key with this id. It may have been deleted.')} />
        <p class="row">
          <a class="button" href={hrefOf('/keys')}>
            All keys
          </a>{' '}
          <a class="button" href={auditHref(id)}>
            Its records in Audit
          </a>
        </p>
      </Page>
    );
  }
  const ended = data === null ? null : endedText(data, ifKnown(changes.reading));
  const planName = data?.plan === null ? 'unknown' : (data?.plan ?? counts?.plan);
  const facts = (
    <>
      {planName !== undefined && (
        <span>
          plan <strong>{planName}</strong>
        </span>
      )}
      {data?.customer && (
        <span>
          of <CustomerLink {...data.customer} />
        </span>
      )}
    </>
  );
  // The record that cannot be read is named above.
  const fault = calm(key).error;
  const hasLimits = ended === null && (hasTokens ? plan !== null : fault === null);
  const standing = derived(usage.reading, standingOf);
  const actions = <KeyActions of={data} usage={counts} open={open} />;
  return (
    <Page title={name ?? id} back={LIST} beside={actions}>
      {outage && <Problem error={outage} />}
      {fault !== null && <Problem error={fault} retry={key.reload} />}
      <div class="with-aside">
        <div>
          <CallerCard
            id={id}
            state={
              key.reading.state === 'known' ? (
                <KeyState of={key.reading.value} standing={standing} />
              ) : hasTokens ? (
                <StandingBadge of={standing} />
              ) : (
                <NotKnown of={key.reading} />
              )
            }
            ended={ended}
            facts={facts}
            usage={usage.reading}
            recent={recent}
          />
          {hasTokens && <PlanOfTokens id={id} plan={plan} plans={ifKnown(plans.reading)?.plans ?? []} />}
          {hasLimits && (
            <Limits
              of={{ id, name }}
              usage={calm(usage)}
              plan={ifKnown(plans.reading)?.plans.find((one) => one.name === counts?.plan)}
              isLive={data !== null && stateOf(data) !== 'revoked'}
            />
          )}
        </div>
        {data !== null && (
          <aside aria-label="About the key">
            <About of={data} />
          </aside>
        )}
        <div class="below">
          <LastRefusals id={id} recent={recent} />
          {data !== null && <WhereFrom id={id} />}
          {data !== null && <Secrets of={data} open={open} />}
          <UseSection id={id} use={use} usage={counts} />
          <Deprecated routes={calm(routes)} />
        </div>
      </div>
      <LastChanges id={id} what="key" changes={calm(changes)} />
      {opened !== null && (
        <OpenedKeyDialog
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

/** Why a key admits no request, whatever its limits are; null if it may. */
function endedText(key: Key, changes: ChangePage | null) {
  const state = stateOf(key);
  const why = refusalOf(key);
  if (why === null) return null;
  if (state === 'active')
    return (
      <>
        Each request gets a {STATUS_OF_CUSTOMER[key.customer!.state] ?? 401}: {why}.
      </>
    );
  if (state === 'suspended')
    return (
      <>
        Each request gets a 403: suspended since <SuspendedText {...key.suspended!} />
      </>
    );
  if (state === 'expired')
    return (
      <>
        Each request gets a 401: expired <Time at={key.expiresAt!} />.
      </>
    );
  const revoked = changes?.changes.find(({ action, outcome }) => action === 'key.revoke' && outcome === 'done');
  return (
    <>
      Each request gets a 401: revoked <Time at={key.revokedAt!} />
      {revoked && (
        <>
          {' '}
          by <bdi>{actorText(revoked.actor)}</bdi>
        </>
      )}
      .
    </>
  );
}

/** @param of null for a caller with tokens, whose ban alone can be changed */
function KeyActions({ of: key, usage, open }: { of: Key | null; usage: Usage | null; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const further = useFurtherActions(key?.id ?? '', usage?.ban != null);
  const state = key === null ? 'tokens' : stateOf(key);
  const isLive = state !== 'revoked' && state !== 'tokens';
  const actions: (Action | false)[] = [
    mayChange && usage?.ban != null && ['lift', 'Lift the ban…', 'primary'],
    mayChange && isLive && key?.suspended !== undefined && ['resume', 'Resume…', 'primary'],
    mayChange && isLive && ['topup', 'Top up…', ''],
    mayChange && isLive && ['reset', 'Reset usage…', ''],
    mayChange && isLive && ['edit', 'Edit…', ''],
    mayChange && isLive && state !== 'expired' && ['rotate', 'Rotate the secret…', 'more'],
    mayChange && isLive && ['move', 'Move…', 'more'],
    mayChange && state === 'active' && ['suspend', 'Suspend…', 'more'],
    mayChange && isLive && ['revoke', 'Revoke…', 'final'],
    mayDelete && key !== null && hasEnded(key) && ['delete', 'Delete…', 'final'],
    ...(isLive ? further : []),
  ];
  return <Actions of={actions} open={open} />;
}

function PlanOfTokens({ id, plan, plans }: { id: string; plan: string | null; plans: readonly Plan[] }) {
  const choose = (event: Event) => {
    const chosen = (event.target as HTMLSelectElement).value;
    navigate(`/keys/${encodeURIComponent(id)}${chosen && `?plan=${encodeURIComponent(chosen)}`}`, 'replace');
  };
  return (
    <div class="panel">
      <Field
        id="token-plan"
        label="Plan"
        hint="This caller has tokens, and only they name its plan. Choose it to see the limits."
      >
        <select id="token-plan" value={plan ?? ''} onChange={choose} aria-describedby="token-plan-hint">
          <option value="">Choose a plan…</option>
          {[...new Set([...plans.map(({ name }) => name), ...(plan === null ? [] : [plan])])].map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
}
