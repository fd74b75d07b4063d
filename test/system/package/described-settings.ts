import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Running, temporaryFolder } from '../../support/processes.ts';

/**
 * Settings with one route, /v1/pets, whose requests are checked against a description.
 * @param listen YAML of `listen`
 * @param isChecked false: they are not checked
 */
export async function describedSettings(listen = '{}', isChecked = true) {
  const folder = await temporaryFolder();
  const [gateway, plans, description] = ['gateway.yaml', 'plans.yaml', 'openapi.yaml'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  // Nothing answers at the target: what passes the check is answered 502.
  const validate = isChecked ? `, validate: ${JSON.stringify(description)}` : '';
  const upstream = `{ targets: ['http://127.0.0.1:9']${validate} }`;
  const route = '{ path: /v1/pets, methods: [GET, POST], upstream: store, auth: none, limits: { minute: 60 } }';
  await writeFile(gateway, `listen: ${listen}\nupstreams: { store: ${upstream} }\nroutes: [${route}]\n`);
  await writeFile(plans, 'plans: { free: { limits: { minute: 60 } } }\n', { mode: 0o600 });
  await writeFile(description, descriptionWith(9));
  const env = { TOLLGATE_CONFIG: gateway, TOLLGATE_PLANS: plans, TOLLGATE_DATA: join(folder, 'data') };
  return { env, description };
}

function descriptionWith(maximum: number): string {
  const limit = `{ name: limit, in: query, schema: { type: integer, enum: [1, 9, 99], maximum: ${maximum} } }`;
  const since = '{ name: since, in: query, schema: { type: string, format: date, pattern: "^20" } }';
  const body =
    '{ content: { application/json: { schema: { type: array, items: { type: string, pattern: "^x+$" } } } } }';
  const operations = `get: { parameters: [${limit}, ${since}] }, post: { requestBody: ${body} }`;
  return `openapi: 3.1.0\npaths: { /v1/pets: { ${operations} } }\n`;
}

/** Expects that a gateway with such settings checks requests, its thread for large bodies too, and that it takes a changed description into force. */
export async function expectChecked(running: Running, description: string): Promise<void> {
  const [line] = await running.until(/^\{.*"msg":"serving"\}$/m, { withinMs: 30_000 });
  const { port } = JSON.parse(line) as { port: number };
  const ask = async (query: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/pets?${query}`);
    return { status: response.status, text: await response.text() };
  };
  expect(await ask('limit=99')).toMatchObject({ status: 400, text: expect.stringContaining('request_invalid') });
  expect(await ask('since=yesterday')).toMatchObject({ status: 400, text: expect.stringContaining('request_invalid') });
  expect((await ask('limit=9&since=2026-01-31')).status).toBe(502);
  // A body of this size is checked in a thread.
  const post = async (last: string) => {
    const body = JSON.stringify([...Array.from({ length: 100 }, () => 'x'.repeat(1_000)), last]);
    const headers = { 'Content-Type': 'application/json' };
    return (await fetch(`http://127.0.0.1:${port}/v1/pets`, { method: 'POST', headers, body })).status;
  };
  expect([await post('y'), await post('x')]).toEqual([400, 502]);
  await writeFile(description, descriptionWith(100));
  await running.until(/"msg":"settings and plans in force"/);
  expect((await ask('limit=99')).status).toBe(502);
}
