import { createCipheriv, createDecipheriv, scrypt } from 'node:crypto';
import { Failure } from '../../failure.ts';
import type { Random } from '../../identify/api-key.ts';

/*
 * The form of a backup file, version 1: a header of 39 bytes, then pieces of 64 KiB of text, each encrypted with
 * AES-256-GCM under a key that scrypt derives from the passphrase and the header's salt.
 *
 *   header   `tollgate keys backup 1` LF, 16 bytes of salt
 *   piece    the encrypted text and 16 bytes of tag. Its nonce is its number, 11 bytes, and a byte that is 1 for the last piece.
 *            The header is authenticated with each piece.
 *
 * Attacks: a thief of the file guesses passphrases (scrypt makes each guess cost 128 MiB and a third of a second; short ones are
 * refused). Someone who can write to the place of the backups alters a piece, swaps two, repeats one, cuts the file at the end of a
 * piece, appends to it, or puts a piece of another backup in: the number, the mark of the last piece and the salt, which makes the key
 * of each file different, fail the tag of that piece. The costs of scrypt belong to the version and are not in the file, so a
 * prepared file cannot ask for more memory.
 */

const MAGIC = 'tollgate keys backup ';
const HEAD = Buffer.from(`${MAGIC}1\n`);
const SALT_BYTES = 16;
const HEADER_BYTES = HEAD.length + SALT_BYTES;
const PIECE_BYTES = 64 * 1024;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const CIPHER = 'aes-256-gcm';
/** 128 MiB and a third of a second for each guess. */
const SCRYPT = { N: 2 ** 17, r: 8, p: 1, maxmem: 160 * 1024 * 1024 };

/** Encrypts a text, whose parts may have any length. Yields the bytes of the file, a piece at a time. */
export async function* sealed(
  text: AsyncIterable<string>,
  passphrase: string,
  random: Random,
): AsyncGenerator<Uint8Array> {
  const header = Buffer.concat([HEAD, random(SALT_BYTES)]);
  const key = await keyFrom(passphrase, header);
  yield header;
  let held: Buffer[] = [];
  let bytes = 0;
  let number = 0;
  const seal = (piece: Uint8Array, isLast: boolean) => {
    const cipher = createCipheriv(CIPHER, key, nonceOf(number++, isLast), { authTagLength: TAG_BYTES });
    cipher.setAAD(header);
    return Buffer.concat([cipher.update(piece), cipher.final(), cipher.getAuthTag()]);
  };
  for await (const part of text) {
    const added = Buffer.from(part);
    held.push(added);
    bytes += added.length;
    if (bytes <= PIECE_BYTES) continue;
    // What would be a whole last piece is held back until more text, or the end, has come.
    let rest: Uint8Array = Buffer.concat(held);
    for (; rest.length > PIECE_BYTES; rest = rest.subarray(PIECE_BYTES))
      yield seal(rest.subarray(0, PIECE_BYTES), false);
    held = [Buffer.from(rest)];
    bytes = rest.length;
  }
  yield seal(Buffer.concat(held), true);
}

/** A file to read from. Resolves to fewer bytes than `length` only at the end of the file. */
type ReadAt = (position: number, length: number) => Promise<Uint8Array>;

/** A backup file whose passphrase is known. */
export interface OpenedFile {
  /**
   * Yields the text again from the start, in parts. What is yielded is authentic, and whole only once the generator has ended.
   * @throws Failure `refused` for a wrong passphrase, or at the piece that is damaged, missing or out of place
   */
  parts(): AsyncGenerator<Uint8Array>;
}

/** @throws Failure `refused` if it is not a backup of this version */
export async function openSealed(readAt: ReadAt, passphrase: string): Promise<OpenedFile> {
  const header = Buffer.from(await readAt(0, HEADER_BYTES));
  const isOurs = header.subarray(0, MAGIC.length).equals(Buffer.from(MAGIC));
  if (isOurs && header.length === HEADER_BYTES && !header.subarray(0, HEAD.length).equals(HEAD)) {
    throw new Failure(
      'refused',
      'The backup has a form that this version of Tollgate does not know. Use a later version.',
    );
  }
  if (!isOurs || header.length < HEADER_BYTES) {
    throw new Failure('refused', 'The file is not a backup that `tollgate keys backup` has made.');
  }
  const key = await keyFrom(passphrase, header);
  return { parts: () => partsOf(readAt, header, key) };
}

async function* partsOf(readAt: ReadAt, header: Buffer, key: Buffer): AsyncGenerator<Uint8Array> {
  const whole = PIECE_BYTES + TAG_BYTES;
  for (let number = 0; ; number++) {
    const position = HEADER_BYTES + number * whole;
    // One byte more shows whether another piece follows.
    const read = Buffer.from(await readAt(position, whole + 1));
    const isLast = read.length <= whole;
    const piece = read.subarray(0, whole);
    if (piece.length < TAG_BYTES) throw damaged(number, position);
    const decipher = createDecipheriv(CIPHER, key, nonceOf(number, isLast), { authTagLength: TAG_BYTES });
    decipher.setAAD(header);
    decipher.setAuthTag(piece.subarray(piece.length - TAG_BYTES));
    let text: Buffer;
    try {
      text = Buffer.concat([decipher.update(piece.subarray(0, piece.length - TAG_BYTES)), decipher.final()]);
    } catch (cause) {
      throw damaged(number, position, cause);
    }
    yield text;
    if (isLast) return;
  }
}

function damaged(number: number, position: number, cause?: unknown): Failure {
  return new Failure(
    'refused',
    number === 0
      ? 'The passphrase is wrong, or the backup is damaged at its beginning.'
      : `The backup is damaged, cut off or altered from byte ${position} on. Use another copy of it.`,
    cause,
  );
}

function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntBE(number, NONCE_BYTES - 7, 6);
  nonce[NONCE_BYTES - 1] = isLast ? 1 : 0;
  return nonce;
}

/** Some keyboards type `é` as one character, and others as two. */
function keyFrom(passphrase: string, header: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(passphrase.normalize('NFC'), header.subarray(HEAD.length), 32, SCRYPT, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
