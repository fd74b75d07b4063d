import type { StoredKey } from '../../src/model/record.ts';
import { createOwnedKey, makeCustomer } from '../../src/operations/customers.ts';
import type { OperatorStore } from '../../src/operations/operator-store.ts';

type Attributes = ReturnType<Parameters<typeof createOwnedKey>[2]>;

/** Makes a customer. @returns its id */
export async function newCustomer(store: OperatorStore, attributes: Attributes): Promise<string> {
  const made = await makeCustomer(store, null, () => attributes);
  if (made.kind !== 'made') throw new Error(made.kind);
  return made.record.id;
}

export async function newKey(store: OperatorStore, attributes: Attributes): Promise<StoredKey> {
  const made = await createOwnedKey(store, null, () => attributes);
  if (made.kind !== 'made') throw new Error(made.kind);
  return made.record;
}
