import { z } from 'zod';
import { Failure } from '../../failure.ts';
import type { Recording } from '../recorded.ts';
import { OPERATIONS, type StoreOperation } from './all.ts';
import type { Contexts, StoreContext } from './contexts.ts';
import { pathMembersOf, readInput } from './input.ts';
import type { InputOf, Invocation, OutputOf } from './operation.ts';
import { type AnyOperation, type DoneOf, PLAINLY, perform } from './perform.ts';

/** How a program asks for an operation, beside its input. */
interface MethodOptions {
  /** Makes a creation, a top-up or a reset once: the same call with the same name changes nothing for 24 h. */
  readonly once?: string;
}

/** Every operation on the store as a method of the same name: it takes the members of the path and of the input as one object. */
export type OperationMethods = {
  readonly [O in StoreOperation as O['name']]: (
    input: InputOf<O>,
    options?: MethodOptions,
  ) => Promise<OutputOf<O> & Durability>;
};

interface Durability {
  /** Present if Redis has not confirmed in time that its replicas have the change, so that a failover may undo it. */
  readonly durability?: 'unknown';
}

/**
 * The operations as methods. They throw Failure `refused` for a wrong input, and otherwise as the operations do.
 * @param contextOf called for each operation; throws if the store must not be used
 */
export function methodsOn(contextOf: () => StoreContext, recording: Recording): OperationMethods {
  const all = OPERATIONS.filter(({ on }) => on === 'store');
  return Object.fromEntries(
    all.map((operation) => [operation.name, methodOf(operation, contextOf, recording)]),
  ) as never;
}

function methodOf(operation: AnyOperation, contextOf: () => StoreContext, recording: Recording) {
  return async (given?: unknown, options?: MethodOptions | null) => {
    const parts = partsOf(operation, given);
    const asked = { ...PLAINLY, once: onceOf(options?.once) };
    const { output, change } = await performGiven(operation, { store: contextOf() }, recording, parts, asked);
    return change?.durability?.kind === 'unknown' ? { ...(output as object), durability: 'unknown' } : output;
  };
}

const NOTHING = z.strictObject({});

/** What an operation is given: the members of its path, and the rest, which a request sends as its query or body. */
interface InputParts {
  readonly ids: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Does an operation with what it was given. @throws Failure, Refused, also for a wrong input */
export function performGiven<O extends AnyOperation>(
  operation: O,
  contexts: Partial<Contexts>,
  recording: Recording | null,
  { ids, body }: InputParts,
  invocation: Invocation,
): Promise<DoneOf<O>> {
  const ask = () => ({
    input: { ...(readInput(operation.input ?? NOTHING, body) as object), ...ids },
    // Another thread parses a large input.
    invocation: { ...invocation, body: operation.maxBytes === undefined ? body : Buffer.from(JSON.stringify(body)) },
  });
  return perform(operation, contexts, recording, Object.values(ids)[0] ?? null, ask);
}

/** The members of the path and the rest, as JSON would have them: a member that is undefined is absent. @throws Failure `refused` */
export function partsOf(operation: AnyOperation, given: unknown): InputParts {
  const sent = asJson(given ?? {});
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) throw new Failure('refused', INPUT_RULE);
  const body: Record<string, unknown> = { ...sent };
  const ids: Record<string, string> = {};
  for (const name of pathMembersOf(operation)) {
    const id = body[name];
    delete body[name];
    if (typeof id !== 'string' || id === '') throw new Failure('refused', `${name} must be a text.`);
    ids[name] = id;
  }
  return { body, ids };
}

const INPUT_RULE = 'The input must be an object that can be written as JSON.';

function asJson(given: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(given, insistOnMeaning));
  } catch (error) {
    throw new Failure('refused', INPUT_RULE, error);
  }
}

/** A replacer for JSON: what JSON would turn into null, or leave out, is refused, because null takes a value away. */
function insistOnMeaning(this: Readonly<Record<string, unknown>>, name: string, value: unknown): unknown {
  const given = this[name];
  const isLost =
    (typeof given === 'number' && !Number.isFinite(given)) ||
    typeof given === 'function' ||
    typeof given === 'symbol' ||
    (given instanceof Date && value === null);
  if (isLost) throw new TypeError(`${name} cannot be written as JSON`);
  return value;
}

const MAX_CHARACTERS = 255;

function onceOf(once: unknown): string | null {
  if (once === undefined || once === null) return null;
  if (typeof once === 'string' && once !== '' && once.length <= MAX_CHARACTERS) return once;
  throw new Failure('refused', `once must be a text of 1 to ${MAX_CHARACTERS} characters.`);
}
