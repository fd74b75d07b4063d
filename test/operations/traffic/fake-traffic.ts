import { decodeNames } from '../../../src/operations/traffic/traffic-record.ts';
import type {
  TrafficPart,
  TrafficPlace,
  TrafficStore,
  TrafficSwap,
} from '../../../src/operations/traffic/traffic-store.ts';

/** A TrafficStore in memory, which may be away. */
export class FakeTraffic implements TrafficStore {
  isAway = false;
  /** It does what it is asked, and fails. */
  losesReplies = false;
  readonly #records = new Map<string, Uint8Array>();

  async read(places: readonly TrafficPlace[]): Promise<readonly (Uint8Array | null)[]> {
    if (this.isAway) throw new Error('away');
    return places.map(({ part, at }) => this.#records.get(`${part} ${at}`) ?? null);
  }

  async swap(swaps: readonly TrafficSwap[]): Promise<boolean> {
    if (this.isAway) throw new Error('away');
    const isSame = ({ part, at, before }: TrafficSwap) => (this.#records.get(`${part} ${at}`) ?? null) === before;
    if (!swaps.every(isSame)) return false;
    for (const { part, at, after } of swaps) this.put(part, at, after);
    if (this.losesReplies) throw new Error('late');
    return true;
  }

  put(part: TrafficPart, at: number, bytes: Uint8Array): void {
    this.#records.set(`${part} ${at}`, bytes);
  }

  /** The names of a day's series. */
  names(ms: number): readonly string[] {
    return decodeNames(this.#records.get(`names ${Math.floor(ms / 86_400_000)}`)!)!;
  }

  /** The size of the largest record of a part. */
  mostBytes(part: TrafficPart): number {
    const all = [...this.#records].filter(([name]) => name.startsWith(part));
    return Math.max(...all.map(([, bytes]) => bytes.length));
  }
}
