import { expect, test } from 'vitest';
import { type Configuration, configurationOf } from '../../src/config/settings.ts';
import { takenBetween } from '../../src/operations/taken-files.ts';

async function settingsWith(gateway: object): Promise<Configuration> {
  const read = await configurationOf({ gateway, plans: { plans: { free: { limits: { minute: 1 } } } } } as never, {});
  if (!('versions' in read)) throw new Error(JSON.stringify(read));
  return read;
}

/** What the record says of a change of gateway.yaml. */
async function changesOf(before: object, after: object): Promise<readonly string[]> {
  const steps = takenBetween(await settingsWith(before), await settingsWith(after), []);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value.flatMap(({ changes }) => changes);
}

test('a change of one of several hosts with the same path is in the record', async () => {
  const upstreams = { a: { targets: ['http://127.0.0.1:1'] }, b: { targets: ['http://127.0.0.1:2'] } };
  const route = (host: string, upstream: string) => ({ hosts: [host], path: '/**', methods: ['GET'], upstream });
  const all = { upstreams, routes: [route('a.example', 'a'), route('b.example', 'b')] };
  const moved = { upstreams, routes: [route('a.example', 'b'), route('b.example', 'b')] };
  expect(await changesOf(all, moved)).toEqual(['routes: 1 changed']);
  expect(await changesOf(all, { upstreams, routes: [route('b.example', 'b')] })).toEqual(['routes: 1 removed']);
});
