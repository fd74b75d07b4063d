/** Every action of the record of changes. The build of the page makes this module. */
export const ACTIONS: readonly string[];
