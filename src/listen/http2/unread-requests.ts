/** How much of a body a client may send before the gateway has read any of it. One round trip of 100 ms takes as much at 10 MB/s. */
export const STREAM_WINDOW_BYTES = 1024 * 1024;
/** The window while bodies are sent faster than services take them. */
export const NARROW_WINDOW_BYTES = 16 * 1024;

const MiB = 1024 * 1024;
/** With more than this unread, of one address or of all, the windows become narrow; with half of it, wide again. */
const NARROW_BYTES_OF_ADDRESS = 4 * MiB;
const NARROW_BYTES = 16 * MiB;
/** Beyond this, streams end. A session of 100 streams that fill their windows at once is within it. */
const MAX_BYTES_OF_ADDRESS = 128 * MiB;
const MAX_BYTES = 256 * MiB;
/** The part of both that remains while memory is nearly used up. */
const SHORT_OF_MEMORY = 1 / 4;

interface UploadingSession {
  /** Of the client; null for a trusted proxy, to which only the limit of all applies. */
  readonly network: string | null;
  /** Bytes of bodies that have arrived and have not been read. */
  readonly unreadOfRequests: number;
  readonly isNarrow: boolean;
  /** Makes the windows of all its streams narrow or wide, unless the client has not confirmed the last change. */
  setNarrow(isNarrow: boolean): void;
  /** Ends streams until at least this much is no longer held, if it can. @returns how much that was */
  endUploads(bytes: number): number;
}

/**
 * Bounds the bytes of request bodies that wait in memory until a service takes them, of all sessions together. Node hands over what
 * arrives whether it is read or not, so only the windows, which a client may fill at any time, hold it back.
 *
 * Wide windows let a distant client send at the speed of its line: with 64 KiB, a round trip of 100 ms allows 0.6 MB/s. Once unread bytes
 * add up, the service is what is slow, so the windows become narrow and nothing is lost.
 *
 * Attack: a client fills the windows of thousands of streams whose service does not read, and does not confirm narrower ones. So beyond a
 * limit for each address and for all, streams end, those of the session with most unread bytes first.
 */
export class UnreadRequests {
  readonly #isShortOfMemory: () => boolean;

  constructor(isShortOfMemory: () => boolean) {
    this.#isShortOfMemory = isShortOfMemory;
  }

  look(sessions: Iterable<UploadingSession>): void {
    let all = 0;
    const perNetwork = new Map<string | null, number>();
    const uploading: UploadingSession[] = [];
    for (const session of sessions) {
      const { unreadOfRequests, isNarrow } = session;
      if (unreadOfRequests === 0 && !isNarrow) continue;
      const { network } = session;
      uploading.push(session);
      all += unreadOfRequests;
      perNetwork.set(network, (perNetwork.get(network) ?? 0) + unreadOfRequests);
    }
    for (const session of uploading) {
      const own = session.network === null ? 0 : perNetwork.get(session.network)!;
      const part = session.isNarrow ? 1 / 2 : 1;
      session.setNarrow(all > NARROW_BYTES * part || own > NARROW_BYTES_OF_ADDRESS * part);
    }
    this.#end(uploading, all, perNetwork);
  }

  #end(uploading: UploadingSession[], all: number, perNetwork: Map<string | null, number>): void {
    const part = this.#isShortOfMemory() ? SHORT_OF_MEMORY : 1;
    let left = all;
    for (const session of uploading.sort((a, b) => b.unreadOfRequests - a.unreadOfRequests)) {
      const own = perNetwork.get(session.network)!;
      const beyondOwn = session.network === null ? 0 : own - MAX_BYTES_OF_ADDRESS * part;
      const beyond = Math.max(beyondOwn, left - MAX_BYTES * part);
      if (beyond <= 0) continue;
      const ended = session.endUploads(beyond);
      left -= ended;
      perNetwork.set(session.network, own - ended);
    }
  }
}
