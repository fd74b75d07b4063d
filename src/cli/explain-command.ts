import { explainRefusal } from '../operations/catalogue/live-operations.ts';
import type { OutputOf } from '../operations/catalogue/operation.ts';
import type { Print } from './operation-command.ts';
import { linesOf, showCommand } from './reading-command.ts';
import { wrapped } from './terminal/command.ts';

/** `tollgate explain`: why a request was refused, in the words of the screen Explain of the console. */
export const explain = showCommand({
  name: 'explain',
  operation: explainRefusal,
  about:
    'Explains why a request was refused or failed, by the X-Request-Id of its response, and what to do about it, in the words of Explain in the ' +
    'console. It asks the gateway of TOLLGATE_GATEWAY, or the one that owns the embedded store. Without a gateway it reads what the store keeps: of a ' +
    'day, the first refusal of each key and window, and failures.',
  positional: 'REQUEST_ID',
  examples: ['tollgate explain 0a1b2c3d4e5f', 'tollgate explain 0a1b2c3d4e5f --json'],
  text: ({ refusals }, print) => {
    const several = `${refusals.length} requests with this id were refused or failed, because the client used it again. The newest is first.\n\n`;
    return `${refusals.length > 1 ? several : ''}${refusals.map((one) => refusalText(one, print)).join('\n')}`;
  },
});

type ShownRefusal = OutputOf<typeof explainRefusal>['refusals'][number];

/** A refusal in lines, with the steps of the screen. */
function refusalText(refusal: ShownRefusal, print: Print): string {
  const { moment, terminal } = print;
  const {
    at,
    clientAddress,
    method,
    path,
    gateway,
    gatewayHost,
    route,
    cost,
    limits,
    strike,
    ban,
    retryAt,
    upstream,
    target,
  } = refusal;
  const words = `${refusal.sentence}\n${refusal.advice}`.split('\n').map((line) => wrapped(line, '', terminal));
  return `${words.join('')}\n${linesOf([
    ['The request came', `${moment(at)} from ${clientAddress}\n${method} ${path ?? '(not readable)'}`],
    ['Gateway', gatewayHost === gateway ? gateway : `${gatewayHost} ${gateway}`],
    ['Route', route ?? 'None matched.'],
    ['Caller', callerText(refusal)],
    ['Limits at the decision', limits.length === 0 ? 'No limit was asked.' : limits.map(limitText).join('\n')],
    ...(cost > 1 ? [['Cost', String(cost)] as const] : []),
    ...(strike === null ? [] : [['Strike', `${strike.number} of ${strike.of}`] as const]),
    ...(ban === null ? [] : [['Ban', `${ban.number}, until ${moment(ban.until)}`] as const]),
    ...(upstream === null ? [] : [['Upstream', target === null ? upstream : `${upstream} ${target}`] as const]),
    ['Response', responseText(refusal)],
    ['Earliest moment that succeeds', retryAt === null ? 'Not a matter of waiting.' : moment(retryAt)],
  ])}`;
}

function responseText({ status, code, totalMs, endedBy }: ShownRefusal): string {
  const after = totalMs === null ? '' : ` after ${totalMs} ms`;
  return `${status}${code === '' ? '' : ` ${code}`}${after}${endedBy === null ? '' : `, ended by the ${endedBy}`}`;
}

function callerText({ consumerId, name, owner, plan }: ShownRefusal): string {
  const caller =
    consumerId === null ? 'Not known.' : [consumerId, name, owner].filter((part) => part !== null).join(', ');
  return plan === null ? caller : `${caller}\nPlan ${plan}`;
}

function limitText({ window, form, unit, needed = 1, limit, used, remaining }: ShownRefusal['limits'][number]): string {
  const inAdvance = needed > 1 ? `; the request takes ${needed} in advance` : '';
  return `${window} (${form}): ${used} of ${limit}${unit === undefined ? '' : ` ${unit}`} used, ${remaining} left${inAdvance}`;
}
