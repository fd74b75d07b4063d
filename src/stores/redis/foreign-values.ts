import { Failure } from '../../failure.ts';
import type { Calls } from './shards.ts';

/** What Redis answers where a name holds a value of another kind, or the ACL of the user forbids a command. */
const FOREIGN = /WRONGTYPE|NOPERM|user executing the script can't/;

/**
 * Defines `numberedFields`: the numbers that are fields of the hash KEYS[1], ascending. The user of the gateways may not call HKEYS.
 * Numbers that Lua does not write digit by digit are no field of ours.
 */
export const NUMBERED_FIELDS_LUA = `
local function ownNumber(text)
  return text and #text < 15 and string.match(text, '^[1-9]%d*$') and tonumber(text) or nil
end
local function numberedFields()
  local seen, numbers, cursor = {}, {}, '0'
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local number = ownNumber(page[2][i])
      -- HSCAN may return a field twice.
      if number and not seen[number] then numbers[#numbers + 1] = number end
      if number then seen[number] = true end
    end
  until cursor == '0'
  table.sort(numbers)
  return numbers
end`;

interface Use {
  readonly circuit: Calls;
  /** The name in Redis that the call uses. */
  readonly name: string;
  /** The message of the failure if the value is another program's, or may not be used. */
  readonly message: string;
  /** The errors that say so. */
  readonly foreign?: RegExp;
  /** The call writes nothing. False if left out. */
  readonly isRead?: boolean;
}

/**
 * Makes a call that a foreign value, or an ACL, can make fail for as long as it is there. Such an error does not open the circuit, because
 * the store is present.
 * @throws Failure `store_corrupt` for such an error
 */
export async function useOwn<T>(
  { circuit, name, message, foreign = FOREIGN, isRead = false }: Use,
  call: () => Promise<T>,
): Promise<T> {
  const outcome = await circuit[isRead ? 'read' : 'run']<{ readonly value: T } | { readonly cause: Error }>(
    () =>
      call().then(
        (value) => ({ value }),
        (cause: Error) => {
          if (foreign.test(cause.message)) return { cause };
          throw cause;
        },
      ),
    name,
  );
  if ('value' in outcome) return outcome.value;
  throw new Failure('store_corrupt', message, outcome.cause);
}
