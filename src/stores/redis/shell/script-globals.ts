/*
 * The names that a script gets from Lua and from Redis. None of them exists in Node.js: the build of engine.lua (tools/engine-lua)
 * leaves them as they are.
 *
 * Lua differs from TypeScript in this: 0 and '' are true, the build moves no index into `any` by one, and Redis replies `false` for a
 * value that does not exist.
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
/** `unpack` returns further values, which TypeScript does not see: each call reads one. */
export declare const struct: {
  pack(this: void, format: string, ...numbers: number[]): string;
  unpack(this: void, format: string, text: string, at: number): number;
};

/** The first byte has the place 1. */
export declare const string: {
  /** In the brackets of a list all bytes up to `to`. */
  byte(this: void, text: string, at: number, to?: number): number;
  char(this: void, ...bytes: number[]): string;
  find(this: void, text: string, part: string, from: number, isPlain: true): number | undefined;
  format(this: void, format: string, ...values: Argument[]): string;
  gmatch(this: void, text: string, pattern: string): () => string | undefined;
  /** The part of the text that the parentheses of the pattern take; undefined without a match. */
  match(this: void, text: string, pattern: string): string | undefined;
  rep(this: void, text: string, times: number): string;
};

export declare const table: { concat(this: void, parts: string[], between: string): string };

/** Undefined if the text is no number. */
export declare function tonumber(text: string | number): number | undefined;

/** Passes the elements of an array as the last arguments of a call. */
export declare function unpack(list: readonly Argument[]): never;

/** Notes the id of a change of KEYS[1] in KEYS[2] (NOTED_LUA of record-writes.ts). */
export declare function note(change: string): void;
/** Whether KEYS[2] has the id of a change. */
export declare function noted(change: string): boolean;

/** The channel on which scripts recall what the store has lent. */
export declare const RECALLS: string;
