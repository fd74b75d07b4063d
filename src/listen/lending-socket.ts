import { Socket } from 'node:net';

const BYTES = 64 * 1024;
/** Read into by all connections: what has come is dealt with, or copied, before anything else is read. */
const LENT = Buffer.allocUnsafeSlow(BYTES);

/** Who takes bytes as they come. What it keeps of them it copies: they are gone when it returns. */
export type TakeBytes = (bytes: Buffer) => void;

/**
 * A connection that can be read without a stream and without a buffer of 64 KiB of its own for each read, which is a
 * tenth of what a refusal costs. Node offers that (`onread`) to those who connect and not to those who accept, so the
 * handle of an accepted socket, which is no documented part of Node, gets a new socket around it.
 */
export class LendingSocket extends Socket {
  /** Gets what comes; null: it is read as a stream. */
  taker: TakeBytes | null = null;

  private constructor(handle: object) {
    const self: { socket: LendingSocket | null } = { socket: null };
    super({
      handle,
      allowHalfOpen: true,
      onread: { buffer: LENT, callback: (bytes: number) => self.socket!.#arrived(LENT.subarray(0, bytes)) },
    } as never);
    self.socket = this;
  }

  /** @returns the same connection; the given socket must not be used any more. As it was where Node has changed */
  static around(accepted: Socket): Socket {
    const bare = accepted as unknown as { _handle?: object | null };
    const handle = bare._handle;
    if (!handle) return accepted;
    bare._handle = null;
    // Where a server of ours accepted it, that counts it as closed.
    accepted.destroy();
    return new LendingSocket(handle);
  }

  /** @returns whether more may come now */
  #arrived(bytes: Buffer): boolean {
    if (this.taker === null) return this.push(ownCopy(bytes));
    this.taker(bytes);
    return true;
  }
}

/**
 * @returns the same bytes, in memory that is theirs alone. Attack: small copies come from a pool of Node's in which a byte
 * that waits keeps 8 KiB, so that a client who sends single bytes would have thousands of times as much held for it.
 */
export function ownCopy(bytes: Buffer): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
