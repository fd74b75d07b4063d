import type { OperationWords } from './words.ts';

/** The operations that change a key or a customer. The build of the page makes this module. */
export const OPERATIONS: readonly OperationWords[];
