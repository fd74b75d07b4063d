import { showKeyNetworks } from '../../operations/catalogue/key-operations.ts';
import { showCommand } from '../reading-command.ts';
import { table } from '../terminal/printed-table.ts';

/** `tollgate keys networks`: from where a key was called, and attempts with its ended secrets. */
export const keysNetworks = showCommand({
  name: 'keys networks',
  operation: showKeyNetworks,
  positional: 'KEY_ID',
  examples: ['tollgate keys networks KEY_ID', 'tollgate keys networks KEY_ID --json'],
  text({ since, networks, others, endedSecrets }, { terminal, moment }) {
    const rows = [
      ...networks.map(({ network, firstAt, ...rest }) => ({ network, first: moment(firstAt), ...rest })),
      ...(others === null ? [] : [{ network: 'others', first: '', ...others }]),
    ].map(({ network, first, lastAt, calls, share }) => [
      network,
      first,
      moment(lastAt),
      String(calls),
      `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`,
    ]);
    const ended = endedSecrets.map(({ last4, firstAt, lastAt, network, refused }) => [
      last4 === null ? 'unknown' : `…${last4}`,
      moment(firstAt),
      moment(lastAt),
      String(refused),
      network,
    ]);
    const none = `No call was counted since ${moment(since)}.\n`;
    const ofNetworks = rows.length === 0 ? none : table(['network', 'first', 'last', 'calls', 'share'], rows, terminal);
    if (ended.length === 0) return ofNetworks;
    return `${ofNetworks}\n${table(['ended secret', 'first', 'last', 'refused', 'last from'], ended, terminal)}`;
  },
  note: ({ isKept }) =>
    isKept
      ? ''
      : 'warning: nothing is added at present. Set `usage: { networks: on }` in gateway.yaml, and do not set `history: off`.\n',
});
