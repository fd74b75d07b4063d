import { beforeAll, describe, expect, test } from 'vitest';
import { type Description, Referee, readDescription } from '../support/openapi-referee.ts';
import { committed, newService } from './service.ts';

const PET = '{"name":"Rex","categoryId":4}';
/** Answers that only the gateway gives. */
const GATEWAY = ['401', '429'];
let description: Description;
beforeAll(async () => {
  description = await readDescription(committed);
});

const operations = () =>
  Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );

describe('openapi.yaml', () => {
  test('is valid OpenAPI 3.1, version 1.0.0, and is served as it was committed', async () => {
    expect([description.openapi, description.info.version]).toEqual([expect.stringMatching(/^3\.1\./), '1.0.0']);
    const service = await newService();
    const served = await service.ask('GET', '/openapi.json');
    expect([served.status, served.headers['content-type']]).toEqual([200, 'application/json']);
    expect(JSON.parse(served.text)).toEqual(committed);
  });

  test('has the operations, parameters and bounds of the interface (its section 4)', () => {
    const parametersOf = (id: string) =>
      operations()
        .find(({ operation }) => operation.operationId === id)
        ?.operation.parameters?.map(({ name, required, schema }) => ({ name, required, schema }));
    expect(operations().map(({ path, method, operation: o }) => [method, path, o.operationId, o.deprecated])).toEqual([
      ['get', '/pets', 'listPets', undefined],
      ['post', '/pets', 'createPet', undefined],
      ['get', '/pets/{petId}', 'getPet', true],
      ['get', '/store/orders', 'listOrders', undefined],
    ]);
    expect(parametersOf('listPets')).toMatchObject([
      { name: 'limit', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
      { name: 'status', schema: { enum: ['available', 'pending', 'sold'] } },
      { name: 'cursor' },
    ]);
    expect(parametersOf('getPet')).toEqual([
      { name: 'petId', required: true, schema: { type: 'integer', format: 'int64' } },
    ]);
    expect(description.components.schemas.NewPet?.required).toEqual(['name', 'categoryId']);
    expect(description.components.schemas.Error?.required).toEqual(['code', 'message', 'status']);
  });

  test('asks for a bearer key everywhere and tells 401, 429 and the rate headers of every answer', () => {
    expect(Object.values(description.components.securitySchemes)).toMatchObject([{ type: 'http', scheme: 'bearer' }]);
    expect(description.security).toHaveLength(1);
    for (const { operation } of operations()) {
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(GATEWAY));
      expect(Object.keys(operation.responses['429']?.headers ?? {})).toContain('Retry-After');
      for (const { headers } of Object.values(operation.responses)) {
        expect(Object.keys(headers ?? {})).toEqual(
          expect.arrayContaining(['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']),
        );
      }
    }
  });

  test('its examples obey its own schemas', () => {
    const { count, wrong } = new Referee(description, '/v1').examples();
    expect([count > 2, wrong]).toEqual([true, []]);
  });
});

describe('the service held to openapi.yaml', () => {
  test('gives every described answer that is not the gateway’s, each as described', async () => {
    const service = await newService();
    service.referee.seen.clear();
    for (let n = 0; n < 2; n += 1) await service.ask('POST', '/v1/pets', { body: PET });
    await service.ask('POST', '/v1/pets', { body: '{"name":"Rex"}' });
    await service.ask('POST', '/v1/pets', { body: ' '.repeat(1024 * 1024 + 1) });
    await service.ask('GET', '/v1/pets?limit=1');
    await service.ask('GET', '/v1/pets?limit=0');
    await service.ask('GET', '/v1/pets/1');
    await service.ask('GET', '/v1/pets/404');
    await service.ask('GET', '/v1/store/orders');
    const described = operations().flatMap(({ operation }) =>
      Object.keys(operation.responses)
        .filter((status) => status !== 'default' && !GATEWAY.includes(status))
        .map((status) => `${operation.operationId} ${status}`),
    );
    expect([...service.referee.seen].sort()).toEqual(described.sort());
  });

  test('takes the bodies that the schema takes and refuses those that it refuses', async () => {
    const service = await newService();
    const schema = description.paths['/pets']!.post!.requestBody!.content['application/json']!.schema;
    const valid = { name: 'Rex', categoryId: 4 };
    for (const body of [
      valid,
      { ...valid, status: 'pending' },
      { ...valid, name: 'é\n\u0001🐈' },
      { ...valid, name: '🐈'.repeat(255) },
      { ...valid, name: '🐈'.repeat(256) },
      { ...valid, name: '' },
      { ...valid, name: 'a\0' },
      { ...valid, name: '\ud83d' },
      { ...valid, name: 1 },
      { ...valid, categoryId: 1.5 },
      { ...valid, categoryId: '4' },
      { ...valid, status: 'lost' },
      { ...valid, status: null },
      { ...valid, color: 'red' },
      { name: 'Rex' },
      { categoryId: 4 },
      {},
      [],
      'Rex',
    ]) {
      const { status } = await service.ask('POST', '/v1/pets', { body: JSON.stringify(body) });
      expect([JSON.stringify(body), status]).toEqual([
        JSON.stringify(body),
        service.referee.accepts(schema, body) ? 201 : 400,
      ]);
    }
  });
});
