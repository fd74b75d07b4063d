/** Freezes a value and everything in it. Settings are swapped whole, never edited. @returns the same value */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const inner of value.values()) deepFreeze(inner);
    // Freezing a Map leaves its entries writable; its writers have to go too.
    const refuse = () => {
      throw new TypeError('This map is frozen.');
    };
    for (const writer of ['set', 'delete', 'clear']) Object.defineProperty(value, writer, { value: refuse });
  } else {
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return Object.freeze(value);
}
