import type { Plan } from '../model/plan.ts';
import type { LogRecord } from '../telemetry/terminal-line.ts';
import type { Hint } from '../telemetry/terminal-log.ts';

// What `tollgate start` prints for the person before it: where everything is, the demo keys, and what to try next.

export interface DemoKey {
  readonly plan: string;
  readonly key: string;
}

export interface Surroundings {
  /** The URLs of the gateway and of its admin port. */
  readonly origin: string;
  readonly adminOrigin: string;
  readonly petsPort: number;
  /** The code that signs in to the console, and whether it does so once; null if the operator has a token. */
  readonly signIn: { readonly code: string; readonly isOnce: boolean } | null;
  /** The targets of gateway.yaml that the pet service replaces. */
  readonly replaced: readonly string[];
  /** The settings files, if this command made them; else null. */
  readonly ownSettings: readonly string[] | null;
  readonly keys: readonly DemoKey[];
  readonly plans: ReadonlyMap<string, Plan>;
  readonly env: NodeJS.ProcessEnv;
}

/** The text that `tollgate start` begins with, in two parts: up to the demo keys, and what to try. Its commands work when pasted. */
export function greetingOf(surroundings: Surroundings): readonly [keys: string, steps: string] {
  const { origin, adminOrigin, petsPort, signIn, replaced, ownSettings, keys, env } = surroundings;
  const width = widestPlan(keys);
  const flood = floodOf(surroundings);
  const sameStore = env.REDIS_URL ? ', with the same REDIS_URL and KEY_PEPPER' : '';
  const upToKeys = [
    '',
    `Tollgate   ${origin}`,
    `admin      ${adminOrigin}  (/livez, /readyz, /metrics)`,
    `console    ${adminOrigin}/console/${signIn === null ? '  (sign in with an admin token)' : `#code=${signIn.code}  (${signIn.isOnce ? 'signs you in once, within 10 minutes' : 'signs you in on this machine until Tollgate stops'})`}`,
    ...(signIn?.isOnce === true ? [`           A new link: ${consoleCommandOf(env)}`] : []),
    `pets       http://127.0.0.1:${petsPort}  (asks for no key; only the gateway should reach it)`,
    ...(replaced.length === 0
      ? []
      : [`           They stand for ${replaced.join(', ')} of gateway.yaml, which \`tollgate serve\` forwards to.`]),
    ...(ownSettings === null ? [] : [`settings   ${ownSettings.join(' and ')}  (this folder has none)`]),
    '',
    'A demo key for each plan:',
    ...keys.map(({ plan, key }) => `  ${plan.padEnd(width)}  ${key}`),
  ];
  const steps = [
    '',
    'Try it, and watch X-RateLimit-Remaining fall:',
    `  curl -i -H 'Authorization: Bearer ${keys[0]?.key}' ${origin}/v1/pets`,
    ...(flood === null
      ? []
      : [`Go on after the ${flood.limit} requests that plan ${keys[0]?.plan} has a minute:`, `  ${flood.command}`]),
    `See who is refused, in another terminal${sameStore}, or in the console:`,
    `  ${commandOf(env)} now`,
    '',
    'Ctrl-C stops it.',
    '',
  ];
  return [textOf(upToKeys), textOf(steps)];
}

const textOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('');

/** A larger quota takes too long to use up for a first try. */
const MAX_FLOOD = 500;
/** More than the refusals that begin a ban in the plans that come with Tollgate. */
const BEYOND = 12;

function floodOf({ origin, keys, plans }: Surroundings): { readonly limit: number; readonly command: string } | null {
  const [first] = keys;
  const limit = first === undefined ? undefined : plans.get(first.plan)?.limits.minute;
  if (typeof limit !== 'number' || limit > MAX_FLOOD) return null;
  // curl sends a request for each number in the brackets.
  const url = `'${origin}/v1/pets?n=[1-${limit + BEYOND}]'`;
  return { limit, command: `curl -s -o /dev/null -w '%{http_code} ' -H 'Authorization: Bearer ${first!.key}' ${url}` };
}

/** How the person calls a command of this installation, in the same folder and on the same store. */
export function commandOf(env: NodeJS.ProcessEnv): string {
  const settings = ['TOLLGATE_DATA', 'TOLLGATE_CONFIG', 'TOLLGATE_PLANS'].filter((name) => env[name]);
  const words = settings.map((name) => `${name}=${quoted(env[name]!)} `).join('');
  if (env.npm_lifecycle_event === 'npx') return `${words}npx tollgate`;
  return env.npm_lifecycle_event === 'start' ? `${words}npm run -s tollgate --` : `${words}tollgate`;
}

/** How the person has a new sign-in link printed, also where the admin port is another than in the settings. */
function consoleCommandOf(env: NodeJS.ProcessEnv): string {
  const ports = ['ADMIN_HOST', 'ADMIN_PORT'].filter((name) => env[name]);
  return `${ports.map((name) => `${name}=${quoted(env[name]!)} `).join('')}${commandOf(env)} console`;
}

/** A word for a shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The reminder shows no more plans than this, so that it stays a small part of the screen. */
const MAX_REMINDED = 6;

/** The demo keys in a few rows, as many beside each other as fit. The first row says what they are for. */
export function reminderOf({ keys, origin }: Pick<Surroundings, 'keys' | 'origin'>, columns: number): string[] {
  const width = widestPlan(keys);
  const items = keys.slice(0, MAX_REMINDED).map(({ plan, key }) => `${plan.padEnd(width)}  ${key}`);
  const itemWidth = Math.max(0, ...items.map(({ length }) => length)) + 2;
  const beside = Math.max(1, Math.floor((columns - 1) / itemWidth));
  const rows = Array.from(
    { length: Math.ceil(items.length / beside) },
    (_, i) => `  ${items.slice(i * beside, (i + 1) * beside).join('  ')}`,
  );
  const more = keys.length > MAX_REMINDED ? `, ${keys.length - MAX_REMINDED} more in demo-keys.json` : '';
  return [`Demo keys for ${origin}${more}`, ...rows];
}

function widestPlan(keys: readonly DemoKey[]): number {
  return Math.max(0, ...keys.map(({ plan }) => plan.length));
}

/** What to try when something has happened for the first time. */
export function hintFor({ code, status, plan, window, consumerId }: LogRecord, command: string): Hint | null {
  if (code === 'api_key_banned') {
    const text = 'The key is banned, because its caller went on. This lifts the ban:';
    return { id: 'ban', text, command: `${command} bans lift ${consumerId}` };
  }
  if (code === 'rate_limit_exceeded') {
    const text = `The ${window} quota of plan ${plan} is used up. This lists who is refused:`;
    return { id: 'quota', text, command: `${command} now` };
  }
  if (status === 401) {
    const text = 'No valid key came. Send `Authorization: Bearer` and a demo key.';
    return { id: 'key', text, command: null };
  }
  return null;
}
