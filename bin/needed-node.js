// Plain JavaScript that any Node.js reads, so that one that is too old gets a sentence and not a parse error.

/** The oldest Node.js that Tollgate runs on. `engines` of package.json and `bin/tollgate` say the same. */
export const neededNode = '26.5.1';

const needed = neededNode.split('.').map(Number);
const present = process.versions.node.split('.').map(Number);
const difference = needed.map((part, i) => present[i] - part).find((part) => part !== 0) ?? 0;

/** Whether the present one is older. */
export const isNodeTooOld = difference < 0;
