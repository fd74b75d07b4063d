/** Every action of the record of changes. The gateway makes this script when it serves the page. */
export const ACTIONS: readonly string[];
