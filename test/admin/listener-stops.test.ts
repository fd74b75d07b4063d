import { expect, test } from 'vitest';
import { listenAdmin } from '../../src/admin/listener.ts';

test('a gateway that stops answers the authorised requests that it has begun (reliability 486)', async () => {
  const [begun, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const admin = await listenAdmin({
    ...{ host: '127.0.0.1', port: 0, hosts: [], tls: null, console: null },
    metrics: async () => ({ text: '', contentType: 'text/plain' }),
    readiness: () => ({ ready: true, store: 'embedded', draining: false }),
    api: async (_, response, keepPlace) => {
      keepPlace();
      begun.resolve();
      await mayEnd.promise;
      response.end('made');
    },
  });
  const url = `http://127.0.0.1:${admin.port}`;
  expect((await fetch(`${url}/livez`)).status).toBe(200);
  const asked = fetch(`${url}/admin/keys`, { method: 'POST' });
  await begun.promise;
  const closed = admin.close();
  mayEnd.resolve();
  expect(await (await asked).text()).toBe('made');
  await closed;
  await expect(fetch(`${url}/livez`)).rejects.toThrow();
});
