// An Express application that checks keys and limits callers itself.
import express from 'express';
import { rateLimit } from 'express-rate-limit';

const KEYS = new Set(['shop_Q7mV2xT9bL4nR8kD1sW6yC3z']);

/** Options of both limiters. The counters are in the memory of this process. */
const shared = { windowMs: 60_000, standardHeaders: 'draft-8', legacyHeaders: true };

/** Everyone: 5 requests a minute from one address. */
const byAddress = rateLimit({ ...shared, limit: 5 });

/** Holders of a key: 10 requests a minute with one key. */
const byKey = rateLimit({ ...shared, limit: 10, keyGenerator: (request) => request.get('X-API-Key') });

function requireKey(request, response, next) {
  if (KEYS.has(request.get('X-API-Key'))) next();
  else response.status(401).json({ error: 'unknown key' });
}

const app = express();
app.get('/v1/status', byAddress, (_request, response) => {
  response.json({ status: 'ok' });
});
app.get('/v1/items', requireKey, byKey, (_request, response) => {
  response.json([{ id: 1, name: 'Kettle' }]);
});
app.listen(8000, '127.0.0.1', () => console.log('express on http://127.0.0.1:8000'));
