import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { endWhenSilent } from '../../src/stores/redis/connectors.ts';

class Connection extends EventEmitter {
  bytesRead = 0;
  bytesWritten = 0;
  ended: string | null = null;

  destroy(error: Error): void {
    this.ended = error.message;
    this.emit('close');
  }
}

function watched(): Connection {
  const connection = new Connection();
  endWhenSilent(connection as unknown as Socket);
  return connection;
}

describe('a connection to Redis', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
  });

  test('is ended 5 s after a command that nobody answers', () => {
    const connection = watched();
    connection.bytesWritten = 100;
    vi.advanceTimersByTime(4_400);
    expect(connection.ended).toBeNull();
    vi.advanceTimersByTime(600);
    expect(connection.ended).toMatch('Nothing was heard for 5000 ms');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is ended also where commands go on being sent into the silence', () => {
    const connection = watched();
    for (let i = 0; i < 50; i++) {
      connection.bytesWritten += 100;
      vi.advanceTimersByTime(100);
    }
    expect(connection.ended).not.toBeNull();
  });

  test('may be silent for an hour where nothing is asked, from the beginning and after an answer', () => {
    const connection = watched();
    vi.advanceTimersByTime(3_600_000);
    connection.bytesWritten = 100;
    vi.advanceTimersByTime(4_000);
    connection.bytesRead = 10;
    vi.advanceTimersByTime(3_600_000);
    expect(connection.ended).toBeNull();
  });

  test('is believed for as long as anything is heard', () => {
    const connection = watched();
    for (let i = 0; i < 100; i++) {
      connection.bytesWritten += 100;
      vi.advanceTimersByTime(1_000);
      connection.bytesRead += 1;
    }
    expect(connection.ended).toBeNull();
  });

  test('that has closed is looked at no longer', () => {
    const connection = watched();
    connection.emit('close');
    expect(vi.getTimerCount()).toBe(0);
  });
});
