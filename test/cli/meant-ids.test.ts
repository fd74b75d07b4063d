import { beforeAll, describe, expect, test } from 'vitest';
import { ALL_COMMANDS } from '../../src/main.ts';
import { runCommand as run } from '../support/run-command.ts';
import { STORES } from './ledger-commands.ts';

/** What a command needs beside the key or customer that it is about. */
const FURTHER: Readonly<Record<string, readonly string[]>> = {
  'keys topup': ['--window', 'minute', '--amount', '1'],
  'keys undo-topup': ['minute'],
  'keys update': ['--notes', 'x'],
  'keys end-secret': ['--last4', 'abcd'],
  'keys delete': ['--yes'],
  'keys move': ['--no-customer', '--plan', 'pro'],
  'customers topup': ['--window', 'minute', '--amount', '1'],
  'customers undo-topup': ['minute'],
  'customers edit': ['--notes', 'x'],
  'customers delete': ['--yes'],
  'usage export': ['--from', '24h'],
};

type Placeholder = 'KEY_ID' | 'CUSTOMER_ID' | 'ID';
const isPlaceholder = (word: string): word is Placeholder => ['KEY_ID', 'CUSTOMER_ID', 'ID'].includes(word);

/** Each argument of a command that is a key or a customer, by the placeholder in its help, with the command up to that argument. */
function argumentsForIds() {
  return ALL_COMMANDS.flatMap(({ name, positionals, options }) => {
    const further = FURTHER[name] ?? [];
    const argv = (word: string) => [...name.split(' '), word, ...further];
    const ofOption = Object.entries(options).flatMap(([option, { value = '' }]) => {
      // `--id ID` names a change.
      if (!isPlaceholder(value) || option === 'id') return [];
      const first = positionals[0] === 'KEY_ID' ? ['web'] : [];
      const rest = name === 'keys move' ? [] : further;
      return [
        {
          what: `${name} --${option}`,
          kind: value,
          argv: (word: string) => [...name.split(' '), ...first, `--${option}`, word, ...rest],
        },
      ];
    });
    const [first = ''] = positionals;
    return [...(isPlaceholder(first) ? [{ what: name, kind: first, argv }] : []), ...ofOption];
  });
}

const every = argumentsForIds();
const ofKeys = every.filter(({ kind }) => kind !== 'CUSTOMER_ID');
const ofCustomers = every.filter(({ kind }) => kind !== 'KEY_ID');
const ofBoth = every.filter(({ kind }) => kind === 'ID');

describe.each(Object.keys(STORES))('on %s', (store) => {
  let env: NodeJS.ProcessEnv;
  let [web, webSecret, acme] = ['', '', ''];
  const made = async (...command: string[]) => JSON.parse((await run(env, ...command, '--json')).stdout);
  beforeAll(async () => {
    env = await STORES[store]!();
    ({ id: web, key: webSecret } = await made('keys', 'create', '--plan', 'pro', '--name', 'web'));
    ({ id: acme } = await made('customers', 'create', '--plan', 'pro', '--name', 'Acme Ltd'));
    for (const name of ['two', 'two', 'both', 'gone']) await made('keys', 'create', '--plan', 'pro', '--name', name);
    for (const name of ['twins', 'twins', 'both', 'gone'])
      await made('customers', 'create', '--plan', 'pro', '--name', name);
    await run(env, 'keys', 'revoke', 'gone', '--yes');
  });

  test('the commands that take a key or a customer are those', () => {
    expect(every.length).toBeGreaterThan(25);
    expect(ofBoth.map(({ what }) => what)).toEqual(['usage', 'usage reset', 'bans lift', 'audit --key']);
  });

  /** Another name each time: what one command did to a record must not matter to the next. */
  let names = 0;

  const findsAlike = async (noun: 'keys' | 'customers', argv: (word: string) => string[]) => {
    const name = `${noun} No. ${++names}`;
    const [one, other] = [
      await made(noun, 'create', '--plan', 'pro', '--name', name),
      await made(noun, 'create', '--plan', 'pro', '--name', `other ${names}`),
    ];
    const byName = await run(env, ...argv(name.toUpperCase()));
    const byId = await run(env, ...argv(other.id));
    const note = `note: ${name.toUpperCase()} is ${one.id}.\n`;
    expect(byName.stderr).toContain(note);
    expect({ ...byId, stdout: '', stderr: byId.stderr.replaceAll(other.id, one.id) }).toEqual({
      ...byName,
      stdout: '',
      stderr: byName.stderr.replace(note, ''),
    });
    expect(byId.stderr).not.toMatch(/There is no|Several|Did you mean/);
  };

  test.each(ofKeys)('$what finds a key by its name as by its id (reliability 321)', ({ argv }) =>
    findsAlike('keys', argv),
  );

  test.each(ofCustomers)(
    '$what finds a customer by its name as by its id (reliability 321) (reliability 378)',
    ({ argv }) => findsAlike('customers', argv),
  );

  test.each(every)(
    '$what refuses a name that several have, and names their ids (reliability 321)',
    async ({ argv, kind }) => {
      const shared = { KEY_ID: ['two'], CUSTOMER_ID: ['twins'], ID: ['two', 'twins', 'both', 'gone'] }[kind];
      for (const name of shared) {
        const { code, stdout, stderr } = await run(env, ...argv(name));
        expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
        expect(stderr).toMatch(
          /Several have this name: give the id\. Did you mean (key|cus)_\w+ \(\w+\) or (key|cus)_\w+ \(\w+\)\?\n$/,
        );
        const isMixed = name === 'both' || name === 'gone';
        if (isMixed) expect(stderr).toMatch(/key_\w+.*cus_/);
      }
    },
  );

  test.each(every.filter(({ kind }) => kind !== 'ID'))(
    '$what says of the name of the other kind whose it is (reliability 378)',
    async ({ argv, kind }) => {
      const [name, whose] =
        kind === 'KEY_ID'
          ? ['acme ltd', `customer, ${acme}. This takes a key`]
          : ['WEB', `key, ${web}. This takes a customer`];
      const { code, stdout, stderr } = await run(env, ...argv(name!));
      // `keys move` notes first whom the name of its key means.
      const said = stderr.replace(/^note: web is .*\n/, '');
      expect({ code, stdout, said }).toEqual({ code: 1, stdout: '', said: `${name} is the name of a ${whose}.\n` });
    },
  );

  test('of four keys with a name or a part of it three are named, and that there are more', async () => {
    for (const name of ['many', 'many', 'many']) await made('keys', 'create', '--plan', 'pro', '--name', name);
    const three = /Did you mean key_\w+ \(many\) or key_\w+ \(many\) or key_\w+ \(many\)\?/;
    for (const word of ['many', 'man'])
      expect((await run(env, 'keys', 'show', word)).stderr).toMatch(RegExp(`${three.source}\n$`));
    await made('keys', 'create', '--plan', 'pro', '--name', 'many');
    for (const word of ['many', 'man'])
      expect((await run(env, 'keys', 'show', word)).stderr).toMatch(RegExp(`${three.source} There are more\\.\n$`));
  });

  test.each(ofBoth.filter(({ what }) => what !== 'audit --key'))(
    '$what says of a name that nothing has that there is neither (reliability 378)',
    async ({ argv }) => {
      expect(await run(env, ...argv('Nothing Ltd'))).toEqual({
        ...{
          code: 1,
          stdout: '',
          stderr: expect.stringMatching(/^There is no key and no customer with this id or name\./),
        },
      });
    },
  );

  test.each(every.filter(({ kind }) => kind !== 'ID'))(
    '$what refuses the id of the other kind, and says which kind it is (reliability 321)',
    async ({ argv, kind }) => {
      const isKey = kind === 'KEY_ID';
      const { code, stdout, stderr } = await run(env, ...argv(isKey ? acme : web));
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain(
        isKey
          ? `${acme} is the id of a customer. This takes a key.\n`
          : `${web} is the id of a key. This takes a customer.\n`,
      );
    },
  );

  test.each(every)('$what takes no secret, and does not repeat it (reliability 321)', async ({ argv, what }) => {
    // A filter of the record may be any text.
    const foreign = what === 'audit --key' ? [] : [`kong_${'a'.repeat(32)}`, `key_${'a'.repeat(40)}`];
    for (const secret of [webSecret, ...foreign]) {
      const { code, stdout, stderr } = await run(env, ...argv(secret));
      expect(code).toBeGreaterThan(0);
      expect(stdout).toBe('');
      expect(stderr).not.toContain(secret.slice(4, 20));
      expect(stderr).toMatch(/secret|no key|no customer|must be the id of a customer/);
    }
  });
});
