import { Act } from '../kit/act.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { say, Time, Until, UtcDay } from '../kit/format.tsx';
import { Section } from '../kit/page.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import type { Resource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { DeprecatedRoute, DeprecatedRoutes, Key, ShownKey } from '../types.ts';
import { LastFour } from './caller-facts.tsx';
import { hasEnded, stateOf } from './caller-state.ts';

// What changes seldom about a key: its secrets, and the deprecated routes that it calls.

interface SecretsProps {
  readonly of: ShownKey;
  readonly open: (dialog: string, secret?: Key['secrets'][number]) => void;
}

export function Secrets({ of: key, open }: SecretsProps) {
  const mayRotate = useMay('operator') && !hasEnded(key);
  const mayEnd = useMay('operator') && stateOf(key) !== 'revoked' && key.secrets.length > 1;
  return (
    <Section title="Secrets" note="Those that work, by their last four characters.">
      {key.secrets.length === 0 ? (
        <Empty title="No secret works." />
      ) : (
        <ul class="panel stack">
          {key.secrets.map((secret) => (
            <li key={`${secret.createdAt} ${secret.last4}`} class="stack tight">
              <strong>
                <LastFour of={{ secrets: [secret] }} />
              </strong>
              <span class="muted">
                Created <Time at={secret.createdAt} dayOnly={true} />,{' '}
                {secret.lastUsedOn === null ? 'no use recorded' : say`last used ${<UtcDay of={secret.lastUsedOn} />}`},
                ends {secret.expiresAt === null ? 'together with the key' : <Until at={secret.expiresAt} />}
              </span>
              {mayEnd && (
                <Act
                  text="End…"
                  aria-label={`End the secret ${secret.last4 ?? 'known by its hash'}`}
                  on={() => open('end', secret)}
                />
              )}
            </li>
          ))}
        </ul>
      )}
      {mayRotate && (
        <p class="row after">
          <Act text="Rotate…" on={() => open('rotate')} />
        </p>
      )}
    </Section>
  );
}

export function Deprecated({ routes }: { routes: Resource<DeprecatedRoutes> }) {
  return (
    <Section title="Deprecated routes" note="In the last 30 days.">
      <Shown of={routes} what="the deprecated routes">
        {({ routes }: DeprecatedRoutes) => (
          <Table
            caption="Deprecated routes that this key calls"
            rows={routes}
            keyOf={({ route, methods }) => `${methods} ${route}`}
            columns={ROUTES}
            empty={<Empty title="No calls of deprecated routes." />}
          />
        )}
      </Shown>
    </Section>
  );
}

const ROUTES: readonly Column<DeprecatedRoute>[] = [
  { title: 'Route', isName: true, as: 'code', of: ({ route, methods }) => `${methods.join(', ')} ${route}` },
  { title: 'Calls', as: 'count', of: ({ calls }) => calls },
  { title: 'Last call', as: 'utcDay', of: ({ lastDay }) => lastDay },
  { title: 'Ends', as: 'until', of: ({ sunset }) => sunset, none: 'not set' },
  { title: 'Successor', as: 'code', of: ({ successor }) => successor },
];
