/*
 * What a path may mean to a service.
 *
 * Attack: `/v1/Admin`, `/v1/admin;x`, `/v1/admin%3Bx`, `/v1/admin.` and `/v1/admin%20` are `/v1/admin` to many services: they ignore
 * capitals, drop path parameters before or after they decode, or drop dots and blanks at the end of a name. So all of this is taken
 * off in one place, and a path counts as whatever one of its readings is: for groups (`PathGroups`), and for routes with
 * stricter rules (`routerOf`). Two texts that are the same to a service which does some of this are the same when all of it is done.
 */

/** Matches a path that may have another reading. Most have none, and then nothing more is done. */
const HAS_OTHER_READING = /[%;A-Z]|\.(?:\/|$)/;

export function mayBeReadOtherwise(path: string): boolean {
  return HAS_OTHER_READING.test(path);
}

/** A segment in its plainest form: decoded once, without path parameters, dots and blanks at its ends, in small letters. */
export function plainSegment(segment: string): string {
  const decoded = decode(segment);
  const mark = decoded.indexOf(';');
  const name = mark < 0 ? decoded : decoded.slice(0, mark);
  let [from, to] = [0, name.length];
  while (to > 0 && (name[to - 1] === '.' || name[to - 1] === ' ')) to--;
  while (from < to && name[from] === ' ') from++;
  // Nothing but dots and blanks is no end of a name.
  return (to === 0 ? name : name.slice(from, to)).toLowerCase();
}

export function plainPath(path: string): string {
  return path.split('/').map(plainSegment).join('/');
}

/** Decodes every percent-encoding once, byte by byte. Whether the bytes are UTF-8 is not checked. */
export function decode(segment: string): string {
  if (!segment.includes('%')) return segment;
  return segment.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
