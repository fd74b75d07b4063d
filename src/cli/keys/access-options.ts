import { Failure } from '../../failure.ts';
import {
  type ACCESS,
  ACCESS_MEMBERS,
  type AccessEdits,
  CUSTOMER_ACCESS_MEMBERS,
  givenAccess,
  metaName,
  type StoredAccess,
} from '../../identify/access.ts';
import { readWords } from '../../operations/catalogue/input.ts';
import type { Command, Words } from '../terminal/command.ts';

// Who may call what, as options of the commands that make and change keys and customers, and in what commands print.

/** How a member is spelled as an option. The option may be given several times. */
interface AccessOption {
  readonly option: string;
  readonly value: string;
  /** For a new key. */
  readonly about: string;
  /** For a change: what is given replaces what is there. */
  readonly aboutChange: string;
}

const OPTIONS: Readonly<Record<keyof typeof ACCESS, AccessOption>> = {
  scopes: {
    option: 'scope',
    value: 'SCOPE',
    about: 'What callers may do, such as orders:write. May be given up to 32 times.',
    aboutChange: 'What callers may do, such as orders:write. Give all of them; one empty scope removes them.',
  },
  addresses: {
    option: 'address',
    value: 'ADDRESS|NETWORK',
    about: 'Where requests must come from, such as 192.0.2.7 or 10.0.0.0/8. May be given up to 64 times.',
    aboutChange:
      'Where requests must come from, such as 192.0.2.7 or 10.0.0.0/8. Give all of them; one empty address removes them.',
  },
  origins: {
    option: 'origin',
    value: 'ORIGIN',
    about:
      'For use in web pages: the origin of pages that may use it, such as https://app.example.com. May be given up to 32 times.',
    aboutChange:
      'The origin of web pages that may use it, such as https://app.example.com. Give all of them; one empty origin removes them.',
  },
  certificates: {
    option: 'certificate',
    value: 'NAME',
    about:
      'A name of client certificates that stand for it: sha256: and a fingerprint, uri: and a URI, or dns: and a DNS name. May be given up to 16 times.',
    aboutChange:
      'A name of client certificates that stand for it, such as uri:spiffe://example.com/shop. Give all of them; one empty name removes them.',
  },
  boundTo: {
    option: 'bound-to',
    value: 'SHA256',
    about: 'The SHA-256 of the client certificate without which it cannot be used, in base64url or hexadecimal.',
    aboutChange:
      'The SHA-256 of the client certificate without which it cannot be used, in base64url or hexadecimal; an empty text removes it.',
  },
  meta: {
    option: 'meta',
    value: 'NAME=VALUE',
    about: 'A pair of metadata, such as team=blue. May be given up to 16 times.',
    aboutChange:
      'A pair of metadata, such as team=blue; team= removes it, and the others stay. One empty text removes all of them.',
  },
};

/** The options of `keys create`. */
export const ACCESS_OPTIONS: Command['options'] = Object.fromEntries(
  Object.entries(OPTIONS).map(([member, { option, value, about }]) => {
    const multiple = member === 'boundTo' ? {} : { multiple: true };
    return [option, { type: 'string', ...multiple, value, about }];
  }),
);

/** How the members that are no lists are read. */
const READ: Readonly<Partial<Record<keyof typeof ACCESS, (given: never) => unknown>>> = {
  meta: (texts: readonly string[]) => metaFrom(texts),
  boundTo: (text: string) => (text === '' ? null : text),
};

/** The members of a change of a key, as `operationCommand` spells them. */
export const ACCESS_SPELLED = spelled(ACCESS_MEMBERS, 'aboutChange');
/** The same of a new customer, and of a change of one. */
export const NEW_CUSTOMER_ACCESS_SPELLED = spelled(CUSTOMER_ACCESS_MEMBERS, 'about');
export const CUSTOMER_ACCESS_SPELLED = spelled(CUSTOMER_ACCESS_MEMBERS, 'aboutChange');

function spelled(members: readonly (keyof typeof ACCESS)[], about: 'about' | 'aboutChange') {
  return Object.fromEntries(
    members.map((member) => {
      const { option, value, [about]: text } = OPTIONS[member];
      return [member, { option, value, about: text, read: READ[member] ?? withoutEmpty }];
    }),
  );
}

/**
 * Reads the options of `keys create`.
 * @throws Failure `bad_usage`
 */
export function readAccess({ options }: Words): AccessEdits {
  const given = ACCESS_MEMBERS.flatMap((member) => {
    const texts = options[OPTIONS[member].option] as readonly string[] | undefined;
    return texts === undefined ? [] : [[member, member === 'meta' ? metaFrom(texts) : texts] as const];
  });
  return readWords(givenAccess, Object.fromEntries(given), (member) => {
    return `--${OPTIONS[member as keyof typeof ACCESS].option}`;
  });
}

/** One empty text stands for nothing. */
function withoutEmpty(texts: readonly string[]): readonly string[] {
  return texts.length === 1 && texts[0] === '' ? [] : texts;
}

/**
 * Reads every `--meta NAME=VALUE`. `NAME=` removes one pair, and one empty text all of them.
 * @throws Failure `bad_usage`
 */
function metaFrom(texts: readonly string[]): Readonly<Record<string, string | null>> | null {
  if (texts.length === 1 && texts[0] === '') return null;
  const pairs = texts.map((text) => {
    const at = text.indexOf('=');
    if (at === -1) throw new Failure('bad_usage', `--meta is '${text}'; it must be NAME=VALUE, such as team=blue.`);
    const name = metaName.safeParse(text.slice(0, at));
    if (!name.success)
      throw new Failure('bad_usage', `--meta is '${text}'; its name ${name.error.issues[0]!.message}.`);
    return [name.data, at === text.length - 1 ? null : text.slice(at + 1)] as const;
  });
  const twice = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (twice !== undefined) throw new Failure('bad_usage', `--meta is given twice for ${twice[0]}.`);
  return Object.fromEntries(pairs);
}

/** A value in one line. */
export function accessText(value: AccessValue): string {
  if (typeof value === 'string') return value;
  if (isList(value)) return value.join(' ');
  return Object.entries(value)
    .map(([name, text]) => `${name}=${text}`)
    .join(', ');
}

/** A value as a cell of CSV, which an import reads. */
export function accessCell(value: AccessValue): string {
  return typeof value === 'string' || isList(value) ? accessText(value) : JSON.stringify(value);
}

type AccessValue = NonNullable<StoredAccess[keyof StoredAccess]>;

function isList(value: AccessValue): value is readonly string[] {
  return Array.isArray(value);
}
