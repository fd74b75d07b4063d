import { beforeAll, describe, expect, test } from 'vitest';
import { main } from '../../src/main.ts';
import { OPERATIONS } from '../../src/operations/catalogue/all.ts';
import { pathMembersOf } from '../../src/operations/catalogue/input.ts';
import { effectOf } from '../../src/operations/catalogue/operation.ts';
import { allowance } from '../support/allowance.ts';
import { runCommand } from '../support/run-command.ts';
import { STORES, spend } from './ledger-commands.ts';

// What a command that changes something has in common with all others, because it is made of its operation.

let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  env = await STORES['the embedded store']!();
});
const run = (...words: string[]) => runCommand(env, ...words);
const json = async (...words: string[]) => JSON.parse((await run(...words, '--json')).stdout);
const newKey = async (...words: string[]) => json('keys', 'create', '--plan', 'pro', ...words);
const newCustomer = async () => (await json('customers', 'create', '--plan', 'pro')).id as string;

/** The id of a new key that is banned. */
async function bannedKey(): Promise<string> {
  const { id } = await newKey('--limit', 'hour=1');
  await spend(env, id, allowance({ hour: 1 }, { after: 1, firstMs: 600_000 }), 3);
  return id;
}

/** The words after the name of a command, once what they need is there. */
const WORDS: Readonly<Record<string, () => Promise<string[]>>> = {
  createKey: async () => ['--plan', 'pro'],
  updateKey: async () => [(await newKey()).id, '--notes', 'x'],
  rotateKey: async () => [(await newKey()).id, '--overlap', '1h'],
  endSecret: async () => {
    const { id, key } = await newKey();
    await run('keys', 'rotate', id);
    return [id, '--last4', key.slice(-4)];
  },
  suspendKey: async () => [(await newKey()).id, '--until', '24h'],
  resumeKey: async () => [(await newKey()).id],
  revokeKey: async () => [(await newKey()).id],
  deleteKey: async () => {
    const { id } = await newKey();
    await run('keys', 'revoke', id);
    return [id];
  },
  moveKey: async () => [(await newKey()).id, '--customer', await newCustomer()],
  createCustomer: async () => ['--plan', 'pro'],
  updateCustomer: async () => [await newCustomer(), '--limit', 'day=5'],
  suspendCustomer: async () => [await newCustomer()],
  resumeCustomer: async () => [await newCustomer()],
  deleteCustomer: async () => [await newCustomer(), '--keys', 'revoke'],
  topUp: async () => [(await newKey()).id, '--window', 'day', '--amount', '5'],
  topUpCustomer: async () => [await newCustomer(), '--window', 'day', '--amount', '5'],
  undoTopUp: async () => {
    const { id } = await newKey();
    await run('keys', 'topup', id, '--window', 'day', '--amount', '5');
    return [id, 'day'];
  },
  undoCustomerTopUp: async () => {
    const id = await newCustomer();
    await run('customers', 'topup', id, '--window', 'day', '--amount', '5');
    return [id, 'day'];
  },
  resetUsage: async () => [(await newKey()).id, '--window', 'day', '--window', 'minute'],
  purgeCache: async () => ['--path', '/v1/pets'],
  liftBan: async () => [await bannedKey(), '--reason', 'x'],
};
const CHANGES = OPERATIONS.flatMap((operation) => {
  const { command, name } = operation;
  return command === undefined ? [] : [{ operation, name, words: command[0].split(' ') }];
});

describe.each(CHANGES)('the command of $name', ({ operation, name, words }) => {
  test('prints the output of its operation as JSON, and is recorded', async () => {
    const given = await WORDS[name]!();
    const { code, stdout, stderr } = await run(...words, ...given, ...(operation.asksFirst ? ['--yes'] : []), '--json');
    expect([code, stderr]).toEqual([0, '']);
    const output = JSON.parse(stdout);
    expect(operation.output.parse(output)).toEqual(output);
    const { changes } = await json('audit', '--limit', '1');
    expect(changes).toMatchObject([{ action: operation.action, target: output.id ?? null }]);
    expect(operation.action).toBeTypeOf('string');
  });
});

const ASKED_FIRST = CHANGES.filter(({ operation }) => operation.asksFirst === true);

describe.each(ASKED_FIRST)('the command of $name', ({ operation, name, words }) => {
  test('asks a person with what it does, and changes nothing after a no', async () => {
    const given = await WORDS[name]!();
    const asked: string[] = [];
    const answering = (answer: string | null) => {
      const question = async (text: string) => {
        asked.push(text);
        return answer;
      };
      const [out, error] = [() => {}, () => {}];
      return main([...words, ...given], { env, out, error, isTerminal: true, question });
    };
    for (const answer of ['', 'no', null]) expect(await answering(answer)).toBe(1);
    expect(asked[0]).toMatch(new RegExp(`^\\w+-?\\w* ${given[0]} \\(plan pro.*\\).*\\? `));
    expect(asked[0]!.endsWith(`? ${effectOf(operation)} [y/N] `)).toBe(true);
    expect(asked[0]!.includes('cannot be undone')).toBe(operation.isFinal === true);
    expect((await run(...words, '--help')).stdout.replaceAll(/\s+/g, ' ')).toContain(effectOf(operation));
    expect((await json('audit', '--limit', '1')).changes[0].action).not.toBe(operation.action);
    expect(await answering('y')).toBe(0);
    expect((await json('audit', '--limit', '1')).changes[0].action).toBe(operation.action);
  });
});

const OF_A_RECORD = CHANGES.filter(({ operation }) => pathMembersOf(operation)[0] === 'id');

test.each(OF_A_RECORD)('the command of $name refuses a record that there is not, with a sentence', async (change) => {
  const [id, ...given] = await WORDS[change.name]!();
  const none = `${id!.slice(0, 4)}none`;
  expect(await run(...change.words, none, ...given, ...(change.operation.asksFirst ? ['--yes'] : []))).toEqual({
    ...{ code: 1, stdout: '', stderr: `There is no ${none === 'key_none' ? 'key' : 'customer'} ${none}.\n` },
  });
});

test('a creation under the same --id is made once, and another one is refused (reliability 471)', async () => {
  const create = (plan: string) => run('customers', 'create', '--plan', plan, '--id', 'ticket 9');
  const { customers: before } = await json('customers', 'list');
  expect(await create('pro')).toMatchObject({ code: 0, stderr: '' });
  expect((await create('pro')).stderr).toBe('Nothing was changed: this change was made under this --id before.\n');
  expect(await create('free')).toMatchObject({
    code: 1,
    stderr: 'Another change was made under this --id. Use a new one.\n',
  });
  expect((await json('customers', 'list')).customers).toHaveLength(before.length + 1);
});

test('a creation that makes a secret takes no --id, of which the secret could be derived again', async () => {
  expect((await run('keys', 'create', '--plan', 'pro', '--id', 'x')).stderr).toContain("Unknown option '--id'");
});
