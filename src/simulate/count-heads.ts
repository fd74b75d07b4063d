/** Heads of the columns in which counts are shown, on a terminal and on the page: what was, and what would be. */
export const COUNT_HEADS = [
  'requests',
  'refused',
  'would be',
  'banned',
  'would be',
  'bans',
  'would be',
  'newly refused',
  'newly admitted',
];
