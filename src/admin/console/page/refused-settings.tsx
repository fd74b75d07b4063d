import { countText, Prose, plural } from './kit/format.tsx';
import { Banner } from './kit/states.tsx';
import { ifKnown } from './reading.ts';
import { useResource } from './requests.ts';
import type { Gateway, GatewayList } from './types.ts';

/** How often a screen without live data reads the state of the gateways, in milliseconds. */
const EVERY_MS = 15_000;

/** The banner for screens without live data. */
export function WatchedSettings() {
  const list = ifKnown(useResource<GatewayList>('/admin/gateways', EVERY_MS).reading);
  return list && <RefusedSettings gateways={list.gateways} />;
}

/** A banner while gateways refuse gateway.yaml or plans.yaml as they are now: each fault with its file and line. */
export function RefusedSettings({ gateways }: { gateways: readonly Gateway[] }) {
  const refusing = gateways.filter(({ settings }) => settings === 'refused');
  if (refusing.length === 0) return null;
  const faults = [...new Set(refusing.flatMap(({ faults }) => faults))];
  const who =
    gateways.length === 1 ? 'The gateway' : `${countText(refusing.length)} of ${plural(gateways.length, 'gateway')}`;
  return (
    <Banner title="The changed settings are refused">
      <ul class="bullets">
        {faults.map((fault) => (
          <li key={fault}>
            <Prose text={fault} />
          </li>
        ))}
      </ul>
      <p>
        {who} {gateways.length > 1 && refusing.length > 1 ? 'serve' : 'serves'} with the settings and plans from before.
        Mend the file, or put its earlier version back.
      </p>
    </Banner>
  );
}
