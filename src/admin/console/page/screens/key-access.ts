import { html } from '../html.ts';
import { Field } from '../kit/dialog.ts';
import type { Key, KeyEdits } from '../types.ts';

// Who may call what with a key: the fields of its form, and what its screen shows.

type Access = Pick<Key, 'scopes' | 'addresses' | 'origins' | 'certificates' | 'boundTo' | 'meta'>;
type Member = keyof Access;

interface AccessField {
  readonly label: string;
  readonly hint: string;
}

const FIELDS: Readonly<Record<Member, AccessField>> = {
  scopes: { label: 'Scopes', hint: 'What callers may do, such as orders:write: one a line. Routes require them.' },
  addresses: {
    label: 'Addresses',
    hint: 'Addresses and networks that requests must come from, such as 10.0.0.0/8: one a line. Empty: from everywhere.',
  },
  origins: {
    label: 'Origins',
    hint: 'For a key in a web page: the pages that may use it, such as https://app.example.com: one a line.',
  },
  certificates: {
    label: 'Client certificates',
    hint: 'Certificates that stand for the key, such as uri:spiffe://example.com/shop, dns:shop.internal or sha256:…: one a line.',
  },
  boundTo: {
    label: 'Bound to',
    hint: 'The SHA-256 of the client certificate without which the key cannot be used. Empty: none.',
  },
  meta: {
    label: 'Metadata',
    hint: 'Up to 16 pairs such as team=blue: one a line. Rules of header fields can have them.',
  },
};

const MEMBERS = Object.keys(FIELDS) as readonly Member[];

/** The text of each field: one element a line. */
export function accessValuesOf(key: Access): Readonly<Record<Member, string>> {
  return Object.fromEntries(MEMBERS.map((member) => [member, linesOf(key[member]).join('\n')])) as Record<
    Member,
    string
  >;
}

function linesOf(value: Access[Member]): readonly string[] {
  if (value == null || Array.isArray(value)) return value ?? [];
  if (typeof value === 'string') return [value];
  return Object.entries(value).map(([name, text]) => `${name}=${text}`);
}

/**
 * @param changed the new text of a field; undefined if it is as it was
 * @param before the text of each field before
 */
export function accessChangesOf(
  changed: (name: string) => string | undefined,
  before: Readonly<Record<string, string>>,
): Pick<KeyEdits, Member> {
  const given = MEMBERS.flatMap((member): (readonly [Member, unknown])[] => {
    const text = changed(member);
    if (text === undefined) return [];
    if (member === 'boundTo') return [[member, text.trim() === '' ? null : text.trim()] as const];
    if (member === 'meta') return [[member, metaEdits(before.meta ?? '', text)] as const];
    return [[member, text.split(/\s+/).filter((line) => line !== '')] as const];
  });
  return Object.fromEntries(given);
}

/** A pair that is no longer in the text is removed. */
function metaEdits(before: string, text: string): Readonly<Record<string, string | null>> {
  const pairsOf = (lines: string) =>
    lines
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => {
        const [name = '', ...value] = line.trim().split('=');
        return [name, value.join('=')] as const;
      });
  return Object.fromEntries([...pairsOf(before).map(([name]) => [name, null] as const), ...pairsOf(text)]);
}

/** What a change has set, in words: `scopes orders:read orders:write`, `no scopes`. */
export function accessChangeText(name: string, value: unknown): string | null {
  if (!MEMBERS.some((member) => member === name)) return null;
  if (name === 'meta') return 'new metadata';
  const lines = linesOf(value as Access[Member]);
  return lines.length === 0 ? `no ${name}` : `${name} ${lines.join(' ')}`;
}

export function AccessFields({ values }: { values: Readonly<Record<string, string>> }) {
  return html`<fieldset>
    <legend>Who may call what</legend>
    ${MEMBERS.map((member) => {
      const { label, hint } = FIELDS[member];
      const id = `key-${member}`;
      return html`<${Field} key=${member} id=${id} label=${label} hint=${hint}>
        <textarea id=${id} name=${member} rows="2" spellcheck="false" defaultValue=${values[member]} aria-describedby="${id}-hint"></textarea>
      </${Field}>`;
    })}
  </fieldset>`;
}

/** The entries of a list of facts about a key or a customer; nothing where it says nothing. */
export function AccessFacts({ of: key }: { of: Partial<Access> }) {
  return MEMBERS.filter((member) => key[member] !== undefined).map(
    (member) =>
      html`<dt>${FIELDS[member].label}</dt><dd class="notes"><bdi>${linesOf(key[member]).join('\n')}</bdi></dd>`,
  );
}
