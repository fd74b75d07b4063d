import { expect, test } from 'vitest';
import { readTraceContext } from '../../src/gateway/trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

test('a valid traceparent is read, with its tracestate', () => {
  expect(
    readTraceContext(['Traceparent', `00-${TRACE}-${PARENT}-01`, 'tracestate', 'a=1', 'tracestate', 'b=2']),
  ).toEqual({
    traceId: TRACE,
    parentId: PARENT,
    sampled: true,
    tracestate: 'a=1,b=2',
  });
});

test.each([
  ['none', []],
  ['two of them', ['traceparent', `00-${TRACE}-${PARENT}-01`, 'traceparent', `00-${TRACE}-${PARENT}-00`]],
  ['version ff', ['traceparent', `ff-${TRACE}-${PARENT}-01`]],
  ['upper case', ['traceparent', `00-${TRACE.toUpperCase()}-${PARENT}-01`]],
  ['an all-zero trace', ['traceparent', `00-${'0'.repeat(32)}-${PARENT}-01`]],
  ['an all-zero parent', ['traceparent', `00-${TRACE}-${'0'.repeat(16)}-01`]],
  ['more than version 00 has', ['traceparent', `00-${TRACE}-${PARENT}-01-extra`]],
  ['noise', ['traceparent', 'x'.repeat(1000)]],
])('%s: the trace begins anew', (_what, rawHeaders) => {
  expect(readTraceContext(rawHeaders)).toBeNull();
});

test('a later version is read by the parts it shares with this one', () => {
  expect(readTraceContext(['traceparent', `01-${TRACE}-${PARENT}-00-more`])).toMatchObject({ sampled: false });
});
