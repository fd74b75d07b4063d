/** The actions of the record of changes that end a ban. The gateway makes this script when it serves the page. */
export const ENDINGS: readonly string[];
