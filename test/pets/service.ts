import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { type RunningPets, startPets } from '../../src/pets/server.ts';
import { type Received, Referee, readDescription } from '../support/openapi-referee.ts';

export const committed: unknown = parse(readFileSync(new URL('../../src/pets/openapi.yaml', import.meta.url), 'utf8'));

export interface Ask {
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Sent with Content-Type application/json unless `headers` says otherwise. */
  readonly body?: string | Uint8Array;
}

/** As it came over the wire. */
type Answer = Omit<Received, 'body'>;

export interface Service extends RunningPets {
  readonly databaseFile: string;
  readonly referee: Referee;
  readonly reported: unknown[];
  /** Sends one request on a connection of its own and holds the answer to the description. */
  ask(method: string, path: string, ask?: Ask): Promise<Answer>;
}

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pets-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** It checks a description and compiles schemas of it, which takes longer than most tests. */
const shared = readDescription(committed).then((description) => new Referee(description, '/v1'));

/** A pet service on a free port with a database of its own, gone when the test ends. */
export async function newService(databaseFile = join(newFolder(), 'pets.db')): Promise<Service> {
  const reported: unknown[] = [];
  const pets = await startPets({ host: '127.0.0.1', port: 0, databaseFile, report: (error) => reported.push(error) });
  onTestFinished(() => pets.close());
  const referee = await shared;
  const ask = async (method: string, path: string, asked: Ask = {}) => {
    const received = await exchange(pets.port, method, path, asked);
    if (path.startsWith('/v1/')) {
      const body: unknown = method === 'HEAD' ? null : JSON.parse(received.text);
      const faults = referee.faultsOf(method, path, { ...received, body });
      expect(faults, `${method} ${path} ${received.text.slice(0, 200)}`).toEqual([]);
    }
    return received;
  };
  return { ...pets, databaseFile, referee, reported, ask };
}

export function exchange(port: number, method: string, path: string, { headers = {}, body }: Ask): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const json = body === undefined ? {} : { 'Content-Type': 'application/json' };
    const outgoing = request({ host: '127.0.0.1', port, method, path, agent: false, headers: { ...json, ...headers } });
    outgoing.on('error', reject).on('response', (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      incoming.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text });
      });
    });
    outgoing.end(body);
  });
}

/** Sends bytes as they are and gives back all that comes until the service closes the connection. */
export function raw(port: number, bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('utf8')));
  });
}
