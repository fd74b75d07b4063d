import {
  type ACCESS,
  ACCESS_MEMBERS,
  type AccessEdits,
  givenAccess,
  type StoredAccess,
} from '../../identify/access.ts';
import { readWords } from '../../operations/catalogue/input.ts';
import type { Command, Words } from '../terminal/command.ts';

// Who may call what, as options of `keys create` and `keys update`, and in what commands print.

/** How a member is spelled as an option. The option may be given several times. */
interface AccessOption {
  readonly option: string;
  readonly value: string;
  /** For a new key. */
  readonly about: string;
  /** For a change: what is given replaces what the key has. */
  readonly aboutChange: string;
}

const OPTIONS: Readonly<Record<keyof typeof ACCESS, AccessOption>> = {
  scopes: {
    option: 'scope',
    value: 'SCOPE',
    about: 'What callers may do, such as orders:write. May be given up to 32 times.',
    aboutChange: 'What callers may do, such as orders:write. Give all scopes of the key; one empty scope removes them.',
  },
  addresses: {
    option: 'address',
    value: 'ADDRESS|NETWORK',
    about: 'Where requests must come from, such as 192.0.2.7 or 10.0.0.0/8. May be given up to 64 times.',
    aboutChange:
      'Where requests must come from, such as 192.0.2.7 or 10.0.0.0/8. Give all addresses of the key; one empty address removes them.',
  },
  origins: {
    option: 'origin',
    value: 'ORIGIN',
    about:
      'For a key in a web page: the origin of pages that may use it, such as https://app.example.com. May be given up to 32 times.',
    aboutChange:
      'The origin of web pages that may use it, such as https://app.example.com. Give all origins of the key; one empty origin removes them.',
  },
};

/** The options of `keys create`. */
export const ACCESS_OPTIONS: Command['options'] = Object.fromEntries(
  Object.values(OPTIONS).map(({ option, value, about }) => [option, { type: 'string', multiple: true, value, about }]),
);

/** The members as `operationCommand` spells them. */
export const ACCESS_SPELLED = Object.fromEntries(
  ACCESS_MEMBERS.map((member) => {
    const { option, value, aboutChange } = OPTIONS[member];
    return [member, { option, value, about: aboutChange, read: withoutEmpty }];
  }),
);

/**
 * Reads the options of `keys create`.
 * @throws Failure `bad_usage`
 */
export function readAccess({ options }: Words): AccessEdits {
  const given = ACCESS_MEMBERS.flatMap((member) => {
    const texts = options[OPTIONS[member].option] as readonly string[] | undefined;
    return texts === undefined ? [] : [[member, texts] as const];
  });
  return readWords(givenAccess, Object.fromEntries(given), (member) => {
    return `--${OPTIONS[member as keyof typeof ACCESS].option}`;
  });
}

/** One empty text stands for nothing. */
function withoutEmpty(texts: readonly string[]): readonly string[] {
  return texts.length === 1 && texts[0] === '' ? [] : texts;
}

/** A value in one line. */
export function accessText(value: NonNullable<StoredAccess[keyof StoredAccess]>): string {
  return value.join(' ');
}
