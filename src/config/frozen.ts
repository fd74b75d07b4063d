/** Plain data that cannot be changed. */
export type Frozen<T> =
  T extends ReadonlyMap<infer Key, infer Value>
    ? ReadonlyMap<Key, Frozen<Value>>
    : T extends object
      ? { readonly [Key in keyof T]: Frozen<T[Key]> }
      : T;

/** Freezes a value and everything in it: a reload replaces the settings and never edits them. @returns the same value */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const inner of value.values()) deepFreeze(inner);
    // Object.freeze does not protect the entries of a Map, so the methods that write are replaced.
    const refuse = () => {
      throw new TypeError('This map is frozen.');
    };
    for (const method of ['set', 'delete', 'clear']) Object.defineProperty(value, method, { value: refuse });
  } else {
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return Object.freeze(value);
}
