import { redis } from './script-globals.ts';

const time = redis.call<[string, string]>('TIME');

/** The present by the store's clock, as it was when the script began. Redis gives both parts as text, which Lua calculates with. */
export const seconds = time[0] as unknown as number;
/** Unix milliseconds. */
export const nowMs = seconds * 1_000 + Math.floor((time[1] as unknown as number) / 1_000);
