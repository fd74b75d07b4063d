import type { OperationWords } from '../serve.ts';

/** The operations that change a key or a customer. The gateway makes this script when it serves the page. */
export const OPERATIONS: readonly OperationWords[];
