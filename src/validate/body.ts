import type { Check } from './checks.ts';
import { JsonFault, readJson } from './json.ts';
import { ruleOf, shortened } from './rules.ts';
import type { Work } from './work.ts';

/** Where a body does not fit its schema: JSON Pointer, and the rule that it breaks as the end of a sentence. */
export interface BodyFault {
  readonly pointer: string;
  readonly rule: string;
}

/**
 * Reads a body of JSON and checks it.
 * @param work begun, and shared with the functions that `check` calls
 * @throws ExcessError
 */
export function faultOfBody(check: Check, bytes: Uint8Array, work: Work): BodyFault | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return check(readJson(text, work)) ? null : ruleOf(check.errors);
  } catch (error) {
    if (error instanceof JsonFault) return { pointer: shortened(error.pointer), rule: `${error.message}.` };
    if (error instanceof TypeError && 'code' in error) return { pointer: '', rule: 'is not UTF-8.' };
    throw error;
  }
}
