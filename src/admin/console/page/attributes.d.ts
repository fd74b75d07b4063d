import type { AttributeWords } from '../console-assets.ts';

// The gateway makes this script when it serves the page, of src/model/attributes.ts.

/** The attributes of keys and customers. */
export const ATTRIBUTES: readonly AttributeWords[];
/** Those through which a search looks, as the beginning of a sentence: `Name, owner`. */
export const SEARCHED: string;
