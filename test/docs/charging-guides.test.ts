import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { RateLimitError } from 'openai';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openReplica } from '../support/gateway.ts';
import { blocksOf } from '../support/guides.ts';
import { ROOT, startProcess, temporaryFolder } from '../support/processes.ts';
import { type RecordedRequest, startUpstream, type Upstream, type UpstreamHandler } from '../support/upstream.ts';

// The settings of the guides about units, as they stand there, before services as the guides suppose them.

interface Guide {
  readonly upstream: Upstream;
  readonly origin: string;
  readonly env: Readonly<Record<string, string>>;
  /** What a command prints as JSON. */
  command(...words: string[]): Promise<{ readonly id: string; readonly key: string }>;
}

type Usage = Readonly<Record<string, { readonly used: number; readonly remaining: number }>>;

/** A gateway with the settings of a page. @param at which of several pairs of files of the page */
async function gatewayOf(page: string, answer: UpstreamHandler, at = 0): Promise<Guide> {
  const upstream = await startUpstream(answer);
  const folder = await temporaryFolder();
  const fileOf = (name: string) => {
    const { text } = blocksOf(page).filter((block) => block.text.startsWith(`# ${name}\n`))[at]!;
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const env = {
    ...{ TOLLGATE_CONFIG: fileOf('gateway.yaml'), TOLLGATE_PLANS: fileOf('plans.yaml') },
    ...{ TOLLGATE_DATA: join(folder, 'data'), UPSTREAM_URL: upstream.origin, PORT: '0', ADMIN_PORT: '0' },
  };
  const { origin, command } = await openReplica({ env });
  return {
    upstream,
    origin,
    env,
    command: async (...words) => {
      const { code, stdout, stderr } = await command(...words, '--json');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return JSON.parse(stdout) as { id: string; key: string };
    },
  };
}

function ask({ origin }: Guide, key: string, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${origin}${path}`, { headers: { ...headers, Authorization: `Bearer ${key}` } });
}

/** Windows whose use is exactly this, once the store knows it: `/usage` reads the store once a second. */
async function usedIs(guide: Guide, key: string, expected: Readonly<Record<string, number>>): Promise<void> {
  await eventually(async () => {
    const { windows } = (await (await ask(guide, key, '/usage')).json()) as { readonly windows: Usage };
    const used = Object.keys(expected).map((name) => [name, windows[name]?.used]);
    expect(Object.fromEntries(used)).toEqual(expected);
  });
}

describe('the official client of OpenAI, with the settings of language-models.md', () => {
  const PAGE = 'docs/guides/language-models.md';
  const PROMPT_TOKENS = 12;
  const WORDS = ['Because ', 'of ', 'the ', 'air.'];
  let guide: Guide;

  beforeAll(async () => {
    guide = await gatewayOf(PAGE, answerAsModel);
  });

  /** A stand-in of that API: `user` of a request says how many tokens its answer has. */
  async function answerAsModel(_: unknown, response: Parameters<UpstreamHandler>[1], recorded: RecordedRequest) {
    await recorded.whole;
    const body = JSON.parse(String(recorded.body)) as OpenAI.ChatCompletionCreateParams;
    const completion = Number(body.user ?? 8);
    const usage = {
      prompt_tokens: PROMPT_TOKENS,
      completion_tokens: completion,
      total_tokens: PROMPT_TOKENS + completion,
    };
    const common = { id: 'chatcmpl-1', created: 1, model: body.model };
    if (body.stream !== true) {
      const message = { role: 'assistant', content: WORDS.join(''), refusal: null };
      const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }];
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ ...common, object: 'chat.completion', choices, usage }));
      return;
    }
    const includesUsage = body.stream_options?.include_usage === true;
    const send = (choices: object[], more: object) =>
      response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices, ...more })}\n\n`);
    response.setHeader('content-type', 'text/event-stream');
    for (const content of WORDS) {
      send([{ index: 0, delta: { content }, finish_reason: null }], includesUsage ? { usage: null } : {});
    }
    if (includesUsage) send([], { usage });
    response.end('data: [DONE]\n\n');
  }

  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${guide.origin}/v1`, maxRetries: 0 });
  const question = (settings: { readonly max: number; readonly tokens?: number }) => ({
    model: 'a-model',
    messages: [{ role: 'user' as const, content: 'Why is the sky blue?' }],
    max_completion_tokens: settings.max,
    ...(settings.tokens === undefined ? {} : { user: String(settings.tokens) }),
  });

  test('pays exactly the tokens of an answer and of a stream, and the reserve of a stream without usage', async () => {
    const { key } = await guide.command('keys', 'create', '--plan', 'chat');
    const client = clientOf(key);
    const answer = await client.chat.completions.create(question({ max: 5000, tokens: 30 }));
    expect(answer.choices[0]!.message.content).toBe('Because of the air.');
    expect(answer.usage?.total_tokens).toBe(42);
    await usedIs(guide, key, { minute: 1, 'tokens-minute': 42 });

    const read = async (include: boolean) => {
      const stream = await client.chat.completions.create({
        ...question({ max: 700, tokens: 88 }),
        stream: true,
        ...(include ? { stream_options: { include_usage: true } } : {}),
      });
      let text = '';
      let total: number | undefined;
      for await (const { choices, usage } of stream) {
        text += choices[0]?.delta.content ?? '';
        total = usage?.total_tokens ?? total;
      }
      return { text, total };
    };
    expect(await read(true)).toEqual({ text: 'Because of the air.', total: 100 });
    await usedIs(guide, key, { minute: 2, 'tokens-minute': 142 });
    expect(await read(false)).toEqual({ text: 'Because of the air.', total: undefined });
    await usedIs(guide, key, { minute: 3, 'tokens-minute': 842 });
  });

  test('throws its RateLimitError with Retry-After, after an overrun too, and has spent nothing by it', async () => {
    const { key } = await guide.command('keys', 'create', '--plan', 'chat');
    const client = clientOf(key);
    await client.chat.completions.create(question({ max: 8000, tokens: 15_000 }));
    await usedIs(guide, key, { minute: 1, 'tokens-minute': 15_012 });
    const sent = guide.upstream.requests.length;
    const refusal = (await client.chat.completions.create(question({ max: 5000 })).catch((error: unknown) => error)) as
      | RateLimitError
      | undefined;
    expect(refusal).toBeInstanceOf(RateLimitError);
    expect(Number(refusal!.headers!.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(refusal!.headers!.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(refusal!.status).toBe(429);
    expect(refusal!.code).toBe('rate_limit_exceeded');
    expect(refusal!.message).toContain(
      'The quota of plan chat, 20000 tokens per minute, has less left than the 5000 that this request takes in advance.',
    );
    expect(guide.upstream.requests).toHaveLength(sent);
    await usedIs(guide, key, { minute: 1, 'tokens-minute': 15_012 });
    // A smaller one fits, and may use more than is left.
    await client.chat.completions.create(question({ max: 100, tokens: 9988 }));
    await usedIs(guide, key, { minute: 2, 'tokens-minute': 25_012 });
    const { windows } = (await (await ask(guide, key, '/usage')).json()) as { readonly windows: Usage };
    expect(windows['tokens-minute']!.remaining).toBe(0);
  });

  test('keys of a customer share its tokens of the month', async () => {
    const { id } = await guide.command('customers', 'create', '--plan', 'company');
    const keys = await Promise.all([1, 2].map(() => guide.command('keys', 'create', '--customer', id)));
    for (const { key } of keys) await clientOf(key).chat.completions.create(question({ max: 300, tokens: 88 }));
    for (const { key } of keys) {
      await usedIs(guide, key, { 'tokens-minute': 100, 'customer-tokens-minute': 200, 'customer-tokens-month': 200 });
    }
  });

  test('the program of the guide prints the answer', async () => {
    const { key } = await guide.command('keys', 'create', '--plan', 'chat');
    const folder = await temporaryFolder();
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const program = blocksOf(PAGE).find(({ language }) => language === 'js')!.text;
    writeFileSync(join(folder, 'ask.mjs'), program.replace('http://127.0.0.1:8080', guide.origin));
    const running = startProcess(process.execPath, ['ask.mjs'], { cwd: folder, env: { TOLLGATE_KEY: key } });
    expect(await running.exit).toMatchObject({ code: 0 });
    expect(running.stdout).toBe('Because of the air.');
    await usedIs(guide, key, { minute: 1, 'tokens-minute': PROMPT_TOKENS + 8 });
  });
});

test('a request pays the price of its model, with the settings of language-models.md', async () => {
  const page = 'docs/guides/language-models.md';
  const usage = { prompt_tokens: 1000, completion_tokens: 200, total_tokens: 1200 };
  const guide = await gatewayOf(
    page,
    async (_, response, recorded) => {
      await recorded.whole;
      const common = { id: 'chatcmpl-1', created: 1, model: 'a-name-of-the-service' };
      if (!JSON.parse(String(recorded.body)).stream) {
        const body = { ...common, object: 'chat.completion', choices: [], usage };
        response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
        return;
      }
      response.setHeader('content-type', 'text/event-stream');
      const chunk = (more: object) =>
        `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', ...more })}\n\n`;
      response.write(chunk({ choices: [{ index: 0, delta: { content: 'Because' } }], usage: null }));
      response.end(`${chunk({ choices: [], usage })}data: [DONE]\n\n`);
    },
    1,
  );
  const { key } = await guide.command('keys', 'create', '--plan', 'paid');
  const client = new OpenAI({ apiKey: key, baseURL: `${guide.origin}/v1`, maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'Why is the sky blue?' }];
  await client.chat.completions.create({ model: 'large', messages, max_completion_tokens: 500 });
  // 1000 × 2.5 + 200 × 10.
  await usedIs(guide, key, { 'microdollars-month': 4500 });
  const stream = await client.chat.completions.create({
    model: 'small',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const _ of stream);
  // 1000 × 0.15 + 200 × 0.6.
  await usedIs(guide, key, { 'microdollars-month': 4770 });
  const sent = guide.upstream.requests.length;
  const refused = await client.chat.completions.create({ model: 'huge', messages }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ status: 400, code: 'request_invalid' });
  expect(String(refused)).toContain('at /model, must be one of the names by which this service charges.');
  expect(guide.upstream.requests).toHaveLength(sent);
  await usedIs(guide, key, { minute: 3, 'microdollars-month': 4770 });
});

describe('the examples of costs.md', () => {
  const PAGE = 'docs/guides/costs.md';

  test('rows: the field is read and removed, and a fixed charge is fixed', async () => {
    const guide = await gatewayOf(PAGE, (_, response) => response.setHeader('X-Rows', '20').end('[]'));
    const { key } = await guide.command('keys', 'create', '--plan', 'analyst');
    const response = await ask(guide, key, '/v1/reports/7', { 'X-Max-Rows': '400' });
    expect([response.status, response.headers.get('x-rows')]).toEqual([200, null]);
    expect(response.headers.get('ratelimit')).toMatch(/"rows-minute";r=4600;/);
    await usedIs(guide, key, { minute: 1, 'rows-minute': 20, 'rows-day': 20 });
    expect((await ask(guide, key, '/v1/totals/7')).status).toBe(200);
    await usedIs(guide, key, { minute: 2, 'rows-minute': 21, 'rows-day': 21 });
  });

  test('bytes: a download costs what its body has', async () => {
    const guide = await gatewayOf(PAGE, (_, response) => response.end('x'.repeat(12_345)), 1);
    const { key } = await guide.command('keys', 'create', '--plan', 'downloads');
    expect(await (await ask(guide, key, '/files/a')).text()).toHaveLength(12_345);
    await usedIs(guide, key, { 'bytes-day': 12_345 });
  });
});
