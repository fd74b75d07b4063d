import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { jsonSchemas } from '../../src/config/json-schema.ts';
import { parseKeysFile } from '../../src/config/keys-file.ts';
import { TOLLGATE } from '../support/processes.ts';
import { MISTAKES } from './mistakes.ts';

const ajv = new Ajv2020({ strict: true, strictTypes: false });
const validate = {
  gateway: ajv.compile(JSON.parse(readFileSync('config/gateway.schema.json', 'utf8'))),
  plans: ajv.compile(JSON.parse(readFileSync('config/plans.schema.json', 'utf8'))),
  keys: ajv.compile(JSON.parse(readFileSync('config/keys.schema.json', 'utf8'))),
};

describe('the JSON Schemas', () => {
  test.each([...jsonSchemas()])('config/%s is committed as the gateway would write it', (name, text) => {
    expect(readFileSync(`config/${name}`, 'utf8')).toBe(text);
  });

  test('are named in the first line of the committed files, which they accept', () => {
    const gateway = readFileSync('config/gateway.yaml', 'utf8');
    const plans = readFileSync('plans.yaml', 'utf8');
    expect(gateway.split('\n')[0]).toBe('# yaml-language-server: $schema=gateway.schema.json');
    expect(plans.split('\n')[0]).toBe('# yaml-language-server: $schema=config/plans.schema.json');
    expect([validate.gateway(parse(gateway)), validate.gateway.errors]).toEqual([true, null]);
    expect([validate.plans(parse(plans)), validate.plans.errors]).toEqual([true, null]);
    const keys = readFileSync('config/keys.yaml', 'utf8');
    expect(keys.split('\n')[0]).toBe('# yaml-language-server: $schema=keys.schema.json');
    expect([validate.keys(parse(keys)), validate.keys.errors]).toEqual([true, null]);
    expect(parseKeysFile(keys, 'keys.yaml', ['pro'])).not.toHaveProperty('faults');
  });

  test.each(Object.entries(MISTAKES).filter(([, { schema }]) => schema !== 'unreadable'))(
    'tell an editor what a schema can tell: %s',
    (name, { kind, schema }) => {
      const accepted = validate[kind](parse(readFileSync(`test/config/faults/${name}.yaml`, 'utf8')));
      expect(accepted ? 'accepts' : 'refuses').toBe(schema);
    },
  );

  test('describe every setting', () => {
    const undescribed: string[] = [];
    const visit = (schema: Record<string, unknown>, path: string) => {
      for (const [key, inner] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>)) {
        if (typeof inner.description !== 'string') undescribed.push(`${path}.${key}`);
      }
      for (const inner of [
        schema.properties,
        schema.anyOf,
        { '*': schema.items },
        { '*': schema.additionalProperties },
      ]) {
        for (const [key, value] of Object.entries(inner ?? {})) {
          if (typeof value === 'object' && value !== null) visit(value as Record<string, unknown>, `${path}.${key}`);
        }
      }
    };
    for (const [name, text] of jsonSchemas()) visit(JSON.parse(text), name);
    expect(undescribed).toEqual([]);
  });
});

test('tollgate schema writes what is not current, and --check exits with 1 until then', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-schema-'));
  const [program, ...words] = TOLLGATE;
  const run = (...args: string[]) =>
    spawnSync(program!, [...words, 'schema', ...args], { cwd: folder, encoding: 'utf8' });
  try {
    expect(run().status).toBe(1);
    mkdirSync(join(folder, 'config'));
    for (const name of ['plans', 'keys'])
      cpSync(`config/${name}.schema.json`, join(folder, `config/${name}.schema.json`));
    writeFileSync(join(folder, 'config/gateway.schema.json'), '{}\n');
    expect(run('--check')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('config/gateway.schema.json is not'),
    });
    expect(run()).toMatchObject({ status: 0, stdout: 'config/gateway.schema.json written\n' });
    expect(run('--check')).toMatchObject({ status: 0, stderr: '' });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
