import { useState } from 'preact/hooks';
import { auditHref, nameOf } from '../kit/callers.tsx';
import { plural, Time } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Page, Section } from '../kit/page.tsx';
import { NotKnown } from '../kit/seen.tsx';
import { calm, Empty, Loading, Problem } from '../kit/states.tsx';
import { UseSection } from '../kit/use.tsx';
import { Limits } from '../limits.tsx';
import { decoded, hrefOf } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { ApiError } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { ShownCustomer, Usage } from '../types.ts';
import { type Action, Actions, CallerCard, useFurtherActions } from './caller-card.tsx';
import { SuspendedText } from './caller-facts.tsx';
import { COUNTS_MS, useCallerRecord } from './caller-record.ts';
import { isSuspended, useCustomerStandings } from './caller-state.ts';
import { CustomerFacts, CustomerState, hasExpired } from './customer-facts.tsx';
import { KeyTable } from './key-table.tsx';
import { LastChanges } from './last-changes.tsx';
import { LastRefusals } from './last-refusals.tsx';

const OpenedCustomerDialog = later(async () => (await import('./opened-dialog.tsx')).OpenedCustomerDialog);

const LIST = { title: 'Customers', path: '/customers' };

/** The customer as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface DialogState {
  readonly dialog: string;
  readonly of: ShownCustomer;
  readonly etag: string | null;
  /** How many of its keys were banned. */
  readonly banned: number;
}

type Open = (dialog: string) => void;

/** `/customers/ID`: all about one customer: what its keys share and have used together, and its keys. */
export function CustomerScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const read = useCallerRecord<ShownCustomer>(id);
  const { record: customer, plans, usage, use, recent, changes, isGone, readAll, outage } = read;
  const [opened, setOpened] = useState<DialogState | null>(null);
  const data = ifKnown(customer.reading);
  const standing = useCustomerStandings(isGone ? [] : [id], COUNTS_MS)(id);
  const banned = ifKnown(standing)?.banned ?? 0;
  const open: Open = (dialog) => data !== null && setOpened({ dialog, of: data, etag: customer.etag, banned });
  if (isGone) {
    return (
      <Page title={id} back={LIST}>
        <Problem
          error={new ApiError(404, 'not_found', 'There is no customer with this id. It may have been deleted.')}
        />
        <p class="row">
          <a class="button" href={hrefOf('/customers')}>
            All customers
          </a>{' '}
          <a class="button" href={auditHref(id)}>
            Its records in Audit
          </a>
        </p>
      </Page>
    );
  }
  if (customer.reading.state === 'unknown') {
    return (
      <Page title={id} back={LIST}>
        <Loading what="the customer" />
      </Page>
    );
  }
  const counts = ifKnown(usage.reading);
  const plan = ifKnown(plans.reading)?.plans.find(({ name }) => name === (data ?? counts)?.plan);
  const ended = data === null ? null : endedText(data);
  const actions = data !== null && <CustomerActions of={data} usage={counts} banned={banned} open={open} />;
  const fault = calm(customer).error;
  return (
    <Page title={data === null ? id : nameOf(data)} back={LIST} beside={actions}>
      {outage && <Problem error={outage} />}
      {fault !== null && <Problem error={fault} retry={customer.reload} />}
      <div class="with-aside">
        <div>
          <CallerCard
            id={id}
            state={
              customer.reading.state === 'known' ? (
                <CustomerState of={customer.reading.value} standing={standing} counts={usage.reading} />
              ) : (
                <NotKnown of={customer.reading} />
              )
            }
            ended={ended}
            facts={
              data !== null && (
                <span>
                  plan <strong>{data.plan}</strong>
                </span>
              )
            }
            usage={usage.reading}
            recent={recent}
          />
          {ended === null && <Limits of={data ?? { id, name: null }} usage={calm(usage)} plan={plan} isLive={true} />}
        </div>
        {data !== null && (
          <aside aria-label="About the customer">
            <CustomerFacts of={data} />
          </aside>
        )}
        <div class="below">
          {data !== null && <KeysOfIt of={data} open={open} />}
          <LastRefusals id={id} recent={recent} />
          <UseSection id={id} use={use} usage={counts} />
        </div>
      </div>
      <LastChanges id={id} what="customer" changes={calm(changes)} />
      {opened !== null && (
        <OpenedCustomerDialog
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

/** Why its keys admit no request, whatever its limits are; null if they may. */
function endedText(customer: ShownCustomer) {
  const { expiresAt, suspended } = customer;
  if (expiresAt !== null && hasExpired(customer)) {
    return (
      <>
        Each request of its keys gets a 401: expired <Time at={expiresAt} />.
      </>
    );
  }
  if (suspended === undefined || !isSuspended(customer)) return null;
  return (
    <>
      Each request of its keys gets a 403: suspended since <SuspendedText {...suspended} />
    </>
  );
}

function CustomerActions({
  of: customer,
  usage,
  banned,
  open,
}: {
  of: ShownCustomer;
  usage: Usage | null;
  /** How many of its keys are banned. */
  banned: number;
  open: Open;
}) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const actions: (Action | false)[] = [
    mayChange &&
      (usage?.ban != null || banned > 0) && ['lift', banned > 0 ? 'Lift the bans…' : 'Lift the ban…', 'primary'],
    mayChange && customer.suspended !== undefined && ['resume', 'Resume…', 'primary'],
    mayChange && ['topup', 'Top up…', ''],
    mayChange && ['reset', 'Reset usage…', ''],
    mayChange && ['edit', 'Edit…', ''],
    mayChange && !isSuspended(customer) && ['suspend', 'Suspend…', 'more'],
    mayDelete && ['delete', 'Delete…', 'final'],
    ...useFurtherActions(customer.id, usage?.ban != null),
  ];
  return <Actions of={actions} open={open} />;
}

/** Its keys that are not revoked, oldest first. */
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
          <button type="button" onClick={() => open('create-key')}>
            Create key…
          </button>
        </p>
      )}
    </Section>
  );
}
