import type { AttributeWords } from './words.ts';

// The build of the page makes this module, of src/model/attributes.ts.

/** The attributes of keys and customers. */
export const ATTRIBUTES: readonly AttributeWords[];
/** Those through which a search looks, as the beginning of a sentence: `Name, owner`. */
export const SEARCHED: string;
