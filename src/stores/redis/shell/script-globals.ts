/*
 * What Lua and Redis give to a script, and history.lua, which precedes it. Nothing of this exists in Node.js: the build of
 * engine.lua (tools/engine-lua) makes plain names of it.
 *
 * Lua differs from TypeScript in this: 0 and '' are true, an index into `any` is not moved by one, and Redis gives `false` for
 * a value that does not exist.
 */

/** An error of Redis, as `pcall` gives it and as a script replies it. */
export interface ErrorReply {
  readonly err: string;
}

/** A list in the reply of a command; with `err` it is an error. */
export type Values = (string | false)[] & { readonly err?: string };

type Argument = string | number;

export declare const KEYS: string[];
export declare const ARGV: string[];

export declare const redis: {
  call<Reply>(this: void, ...args: Argument[]): Reply;
  pcall<Reply>(this: void, ...args: Argument[]): Reply;
};

export declare const cjson: { decode<T>(this: void, text: string): T };
export declare const cmsgpack: { pack(this: void, value: unknown): string };
/** Only the first of the values that `unpack` returns: each call reads one. */
export declare const struct: {
  pack(this: void, format: string, ...numbers: number[]): string;
  unpack(this: void, format: string, text: string, at: number): number;
};

/** Places count from 1. */
export declare const string: {
  byte(this: void, text: string, at: number): number;
  char(this: void, ...bytes: number[]): string;
  find(this: void, text: string, part: string, from: number, isPlain: true): number | undefined;
  format(this: void, format: string, ...values: Argument[]): string;
  gmatch(this: void, text: string, pattern: string): () => string | undefined;
  /** For patterns with one part in parentheses. */
  match(this: void, text: string, pattern: string): string | undefined;
  rep(this: void, text: string, times: number): string;
};

export declare const table: { concat(this: void, parts: string[], between: string): string };

/** Undefined if the text is no number. */
export declare function tonumber(text: string | number): number | undefined;

/** The elements of an array as arguments: as the last ones of a call. */
export declare function unpack(list: readonly Argument[]): never;

/** Functions of history.lua, as the next one. They return an error of the store, or nothing. */
export declare function history(): {
  broughtLate(this: void, key: string, hour: number, cost: number, present: number): ErrorReply | undefined;
};
export declare function recordAdmitted(key: string, hour: number, cost: number): ErrorReply | undefined;
/** @returns how many arguments there are besides the clock of the gateway */
export declare function readGatewayClock(storeSeconds: number): number;
/** The last history in which nothing was recorded, because its key holds something else. */
export declare const unrecorded: string | undefined;

/** Of NOTED_LUA (record-writes.ts): notes the id of a change of KEYS[1] in KEYS[2]. */
export declare function note(change: string): void;
/** Whether the id of a change is noted. */
export declare function noted(change: string): boolean;

/** The channel on which scripts call back what is lent. */
export declare const RECALLS: string;
