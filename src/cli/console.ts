import { randomBytes } from 'node:crypto';
import { type ExitCode, Failure } from '../failure.ts';
import { exchange } from '../io/http-exchange.ts';
import { urlOfListener } from '../io/listening.ts';
import { shellActor } from '../operations/recorded.ts';
import { LINK_LIFETIME_MS, offerSignIn } from '../operations/sign-in-links.ts';
import { withStore } from '../serve/open-store.ts';
import type { Command, Terminal } from './terminal/command.ts';
import { OF_STORE } from './terminal/variables.ts';

/** How long the command waits for the admin port of the gateway, milliseconds. */
const ANSWER_WITHIN_MS = 5_000;

/** `tollgate console`: prints a one-time link that signs in to the console. */
export const consoleLink: Command = {
  name: 'console',
  about:
    'Prints a link that signs in to the console once, within ten minutes, as an admin. It needs no token and no running gateway: ' +
    'everyone with access to the store of the gateways and its pepper can make one. Every gateway on the store with its console on takes it.',
  positionals: [],
  environment: [...OF_STORE, 'ADMIN_PORT', 'ADMIN_HOST'],
  options: {
    url: {
      type: 'string',
      value: 'URL',
      about: 'The address at which a browser reaches the admin port, if it differs from that of the settings.',
    },
    json: { type: 'boolean', about: 'Prints {"url","expiresAt"}.' },
  },
  examples: ['tollgate console', 'tollgate console --url https://tollgate-admin.example.com'],
  async run({ options }, terminal) {
    const given = options.url === undefined ? null : originFrom(options.url as string);
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const { host, port, tls } = store.settings.admin;
        const origin = given ?? urlOfListener(host, port, tls === null ? 'http' : 'https');
        const state = await consoleAt(origin, terminal);
        if (state === 'off') {
          throw new Failure(
            'refused',
            `The console of the gateway at ${origin} is off. Set ADMIN_TOKEN or ADMIN_TOKENS_FILE and start the gateway again; \`tollgate start\` needs neither.`,
          );
        }
        const { user, host: machine } = shellActor();
        const code = await offerSignIn(`shell ${user}@${machine}`, { ...store, random: randomBytes });
        const url = `${origin}/console/#code=${code}`;
        const expiresAt = new Date(Date.now() + LINK_LIFETIME_MS).toISOString();
        if (options.json === true) terminal.out(`${JSON.stringify({ url, expiresAt }, null, 2)}\n`);
        else {
          terminal.out(`${url}\n`);
          terminal.error(
            `This link signs in once, within 10 minutes, as an admin. Gateways on ${store.name} take it.\n`,
          );
        }
        if (state === 'silent') {
          terminal.error(
            `warning: No gateway answers at ${origin}. Start it, or give the address of one with ADMIN_PORT or --url. The link works on every gateway of this store.\n`,
          );
        }
        return 0;
      },
      { needsPlans: false, warn: terminal.error },
    );
  },
};

/** @throws Failure `bad_usage` */
function originFrom(text: string): string {
  const url = URL.parse(text);
  if (url !== null && (url.protocol === 'http:' || url.protocol === 'https:')) return url.origin;
  throw new Failure('bad_usage', '--url must be the address of an admin port, such as http://127.0.0.1:9090.');
}

/** Whether a gateway there has its console on. One whose certificate this machine does not trust counts as on. */
async function consoleAt(
  origin: string,
  { answerWithinMs = ANSWER_WITHIN_MS }: Terminal,
): Promise<'on' | 'off' | 'silent'> {
  try {
    const signal = AbortSignal.timeout(answerWithinMs);
    const { status } = await exchange({ url: `${origin}/console/`, method: 'GET', signal });
    return status === 403 ? 'off' : 'on';
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    return /CERT|SIGNATURE/.test(code) ? 'on' : 'silent';
  }
}
