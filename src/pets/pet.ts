/** An animal of the store, as interface section 2 describes it. Ids are int64 and therefore `bigint` all the way. */
export interface Pet extends NewPet {
  readonly id: bigint;
}

/** What a client sends to add an animal, with the default of `status` filled in (contract section 8). */
export interface NewPet {
  readonly name: string;
  readonly categoryId: bigint;
  readonly status: PetStatus;
}

export type PetStatus = (typeof PET_STATUSES)[number];

export const PET_STATUSES = ['available', 'pending', 'sold'] as const;

/** True for the three states an animal can be in (interface section 2, PetStatus). */
export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value);
}
