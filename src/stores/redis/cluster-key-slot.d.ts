/** Version 1.1.1, which ioredis pins, has no types. */
declare module 'cluster-key-slot' {
  /** The slot of a name in a Redis Cluster, 0 to 16,383. */
  export default function slotOf(name: string): number;
}
