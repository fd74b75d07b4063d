import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { afterReadyWork } from '../../src/io/after-reading.ts';
import { Deadlines, ReplyDeadlines, UNWATCHED } from '../../src/io/deadlines.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { holdTime } from '../support/hold-time.ts';
import { listen } from '../support/listening.ts';

const never = new Promise<never>(() => {});

/** What has become of each call by now. */
function watch(calls: Readonly<Record<string, Promise<unknown>>>): Record<string, unknown> {
  const ends: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(calls)) {
    call.then(
      (value) => (ends[name] = value),
      (error) => (ends[name] = error),
    );
  }
  return ends;
}

/** Both ends of a connection. */
async function connection() {
  const server = createServer();
  const client = connect((await listen(server)).port, '127.0.0.1');
  const [service] = (await once(server, 'connection')) as [Socket];
  const close = () => {
    client.destroy();
    service.destroy();
    server.close();
  };
  return { client, service, close };
}

describe('the deadlines of replies', () => {
  test('run out each at its own time, whichever began first', async () => {
    const pass = holdTime();
    const deadlines = new ReplyDeadlines();
    const within = (ms: number) => deadlines.within(never, ms, () => 'late');
    const ends = watch({ long: within(50), short: within(20) });
    await pass(10);
    const later = watch({ later: within(50) });
    await pass(9);
    expect(ends).toEqual({});
    await pass(1);
    expect(ends).toEqual({ short: 'late' });
    await pass(29);
    expect(ends).not.toHaveProperty('long');
    await pass(1);
    expect(ends).toHaveProperty('long', 'late');
    expect(later).toEqual({});
    await pass(10);
    expect(later).toEqual({ later: 'late' });
  });

  test('leave alone what is answered, and what is answered late', async () => {
    const pass = holdTime();
    const deadlines = new ReplyDeadlines();
    const answers = Array.from({ length: 3 }, () => Promise.withResolvers<string>());
    const calls = answers.map(({ promise }) => deadlines.within(promise, 20, () => Promise.reject('late')));
    const ends = watch({ inTime: calls[0]!, refused: calls[1]!, late: calls[2]! });
    await pass(19);
    answers[0]!.resolve('yes');
    answers[1]!.reject('no');
    await pass(1);
    answers[2]!.resolve('too late');
    await pass(100);
    expect(ends).toEqual({ inTime: 'yes', refused: 'no', late: 'late' });
  });

  test('have no effect once the reply is read, even in the turn in which they pass (reliability 71)', async () => {
    const { client, service, close } = await connection();
    let late = 0;
    const reply = new ReplyDeadlines().within(once(client, 'data'), 20, () => {
      late++;
      return Promise.reject(new Error('late'));
    });
    service.write('reply');
    // The timer runs first, and the reply is read before what the timer has led to.
    busyFor(60);
    expect(String(await reply)).toBe('reply');
    await new Promise(setImmediate);
    expect(late).toBe(0);
    close();
  });

  test('count a stall of this thread as 25 ms at most, so that what needs three replies is not late because of it (reliability 437)', async () => {
    const { client, service, close } = await connection();
    const deadlines = new ReplyDeadlines();
    const threeReplies = async () => {
      for (let i = 0; i < 3; i++) {
        service.write('reply');
        busyFor(120);
        await once(client, 'data');
      }
      return 'answered';
    };
    expect(await deadlines.within(threeReplies(), 100, () => 'late')).toBe('answered');
    close();
  });
});

test('a deadline that passes while what has arrived is read takes effect at the next check (reliability 450)', async () => {
  let nowMs = 0;
  const deadlines = new Deadlines(() => nowMs);
  let isLate = false;
  const waiting = {
    deadlineAtMs: 10,
    slot: UNWATCHED,
    onDeadline: () => {
      isLate = true;
    },
  };
  deadlines.watch(waiting);
  const isLateAtOnce = await new Promise((resolve) => {
    // Right behind the timer of the deadlines, which has the same interval.
    setTimeout(() => {
      nowMs = 10;
      afterReadyWork(() => resolve(isLate));
    }, 100);
  });
  expect(isLateAtOnce).toBe(false);
  await eventually(() => isLate);
  deadlines.forget(waiting);
});
