import { Failure } from '../../failure.ts';
import type { Calls } from './shards.ts';

/** The errors of Redis if a name holds a value of another kind, or the ACL of the user forbids a command. */
const FOREIGN = /WRONGTYPE|NOPERM|user executing the script can't/;

/**
 * Defines `numberedFields`: the numbers that are fields of the hash KEYS[1], ascending. The ACL of the gateways does not allow
 * HKEYS. Tollgate writes no field with a number that Lua does not write digit by digit.
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
  /** The message of the failure if the value is another program's, or the ACL forbids its use. */
  readonly message: string;
  /** The errors of such a value. */
  readonly foreign?: RegExp;
  /** True if the call writes nothing; false if left out. */
  readonly isRead?: boolean;
}

/**
 * Makes a call that fails for as long as a foreign value is there, or an ACL forbids it. Such an error does not open the circuit,
 * because the store is present.
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
