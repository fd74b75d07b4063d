import type { z } from 'zod';
import type { Role } from '../../config/admin-tokens-file.ts';
import type { StoredRecord } from '../../model/record.ts';
import type { DeepReadonly } from '../../model/values.ts';
import type { Action, Actor } from '../audit-trail.ts';
import type { Guard } from '../operator-store.ts';
import type { Change, RecordedWork } from '../recorded.ts';
import type { Contexts } from './contexts.ts';

// An operation of operators is data. The admin API, its OpenAPI description, the options and help of commands, the types of the
// console and the methods of the library are made of it.

/** The method and path below `/admin` of an operation, such as `POST /keys/{id}/topups`. */
type RequestLine = `${'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'} /${string}`;

/** The members of the input that are in the path. */
type PathMembers<Line extends string> = Line extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathMembers<Rest>
  : unknown;

interface Described<Name extends string, Line extends RequestLine> {
  /** Of the method of the library, and the operationId of the OpenAPI description. */
  readonly name: Name;
  readonly line: Line;
  /** The lowest role that may use it. */
  readonly role: Role;
  /** What it does, in one sentence for the reference and for `--help`. */
  readonly sentence: string;
  /** What else a caller of the API needs to know. */
  readonly description?: string;
}

interface Definition<
  Name extends string,
  On extends keyof Contexts,
  Line extends RequestLine,
  In extends z.ZodType,
  Out extends z.ZodType,
> extends Described<Name, Line> {
  /** What it works on. `store` operations are also commands and methods of the library. `live` ones answer while the store is away. */
  readonly on: On;
  /** Its command, and the line of at most 52 characters for that in the overview. Left out, no command is made of it alone. */
  readonly command?: readonly [name: string, line: string];
  /** The action in the record of changes; left out if it changes nothing. Every attempt is recorded. */
  readonly action?: Action;
  /** It makes several changes, each with an entry of its own (`Invocation.recorded`). Its own action has an attempt with a wrong input. */
  readonly recordsEach?: true;
  /**
   * What becomes of the key or the customer ("it"), for a person who is about to do this: plain sentences for `--help`, for the
   * question of the command, for the dialog of the console and for the reference.
   */
  readonly effect?: string;
  /** A person is asked first, with its effect. What only an admin may do needs `--yes` where there is no person to ask. */
  readonly asksFirst?: true;
  /** It cannot be undone, and its effect says so. */
  readonly isFinal?: true;
  /** It ends a ban: the console offers it while there is one, and Explain names the operator who did it. */
  readonly endsBan?: true;
  /** Its output has a secret, which is shown this once. */
  readonly makesSecret?: true;
  /** What a person who gave none of its members is asked, by the member that a yes makes true. */
  readonly asks?: Readonly<Record<string, string>>;
  /**
   * The members beside those of the path: a JSON body, or for GET the query, each with its fault as the end of a sentence (`must be
   * …`). Left out, the operation has no further members, and GET ignores its query.
   */
  readonly input?: In;
  readonly output: Out;
  /** How it may fail beside the ways that all have, by code; each with its own sentence, or `true` for the usual one. */
  readonly fails?: Readonly<Partial<Record<FailureWay, string | true>>>;
  /** What it shows or changes has versions: it shows which one that is, and may be asked to change that one only. */
  readonly isVersioned?: true;
  /** It must be asked for with the version that the operator has seen. */
  readonly needsVersion?: true;
  /** It may be given a name (`Idempotency-Key`, `--id`), under which it is done once in 24 hours. */
  readonly once?: true;
  /** The store keeps nothing of what it does, so no failover can undo that. */
  readonly keepsNothing?: true;
  /** It can be done while plans.yaml has faults, as when a leaked key is revoked. */
  readonly needsNoPlans?: true;
  /** It reads much of the store, as every operation with pages does: people take turns, so that callers do not wait for it. */
  readonly readsMuch?: true;
  /** Its input is large: `run` gets it as JSON of at most this many bytes, for a thread to parse. */
  readonly maxBytes?: number;
  /** Its input is a slice of a file, of at most `MAX_SLICE_BYTES`. */
  readonly isSlice?: true;
  /** What a command does that asks no gateway, with what the store keeps; left out of a `live` operation, only a gateway can do it. */
  readonly fromStore?: (
    context: Contexts['store'],
    input: z.output<In> & PathMembers<Line>,
  ) => Promise<Done<z.output<Out>>>;
  readonly run: (
    context: Contexts[On],
    input: z.output<In> & PathMembers<Line>,
    invocation: Invocation,
  ) => Promise<Done<z.output<Out>>>;
}

/** What an operation does, for a person who is about to do it; undefined if its sentence says it all. */
export function effectOf({ effect, isFinal }: Effect): string | undefined {
  return isFinal === true ? `${effect} This cannot be undone.` : effect;
}

type Effect = Partial<Pick<Operation, 'effect' | 'isFinal'>>;

/** Codes of errors that not every operation has. */
type FailureWay = 'not_found' | 'conflict' | 'invalid_plans' | 'store_unavailable';

/** How an operator has asked for an operation, beside its input. */
export interface Invocation {
  /** The name under which the change is made once; null without one. */
  readonly once: string | null;
  /** Refuses any version of the key but those that the operator has seen; undefined if any will do. */
  readonly guard: Guard | undefined;
  /** The body as it was sent: parsed JSON, or bytes if `maxBytes` is set; undefined without a body. */
  readonly body: unknown;
  /** The versions one of which is to be changed; null for any. */
  readonly versions: readonly string[] | null;
  /** Who asks, if the operation is recorded. */
  readonly by: Actor | null;
  /** Makes one of several changes, and records it. @throws as `recorded` of recorded.ts */
  readonly recorded: <T>(work: RecordedWork<T>) => Promise<T>;
}

/** An operation that was done. */
export interface Done<Out> {
  readonly output: DeepReadonly<Out>;
  /** What it has changed. Required if the operation has an `action`. */
  readonly change?: Change;
  /** The key or the customer, whose version the response names. */
  readonly record?: StoredRecord;
  /** The version of a file, which the response names. */
  readonly version?: string;
  /** Under this name it was done before, and nothing was changed now. */
  readonly isRepeated?: boolean;
}

export type Operation<
  Name extends string = string,
  On extends keyof Contexts = keyof Contexts,
  Line extends RequestLine = RequestLine,
  In extends z.ZodType = z.ZodType,
  Out extends z.ZodType = z.ZodType,
> = Definition<Name, On, Line, In, Out>;

/** What an operation takes: the members of its path and of its input, before defaults. */
export type InputOf<O> = O extends { readonly line: infer Line extends string; readonly input?: infer In }
  ? PathMembers<Line> & (In extends z.ZodType ? GivenOf<z.input<In>> : unknown)
  : never;

/** An input without members has the type of an object whose members are never there. */
type GivenOf<T> = T extends Record<string, never> ? unknown : DeepReadonly<T>;

/** What an operation gives. */
export type OutputOf<O> = O extends { readonly output: infer Out extends z.ZodType }
  ? DeepReadonly<z.output<Out>>
  : never;

export function defineOperation<
  const Name extends string,
  const On extends keyof Contexts,
  const Line extends RequestLine,
  Out extends z.ZodType,
  In extends z.ZodType = z.ZodType<unknown>,
>(definition: Definition<Name, On, Line, In, Out>): Operation<Name, On, Line, In, Out> {
  return definition;
}

/** A stream of server-sent events. The admin API alone has these. */
export interface Stream<Name extends string = string> extends Described<Name, `GET /${string}`> {
  readonly input: z.ZodType;
}

export function defineStream<const Name extends string>(stream: Stream<Name>): Stream<Name> {
  return stream;
}
