import type { OperationWords } from '../console-assets.ts';

/** The operations that change a key or a customer. The gateway makes this script when it serves the page. */
export const OPERATIONS: readonly OperationWords[];
