import type { AttributeWords } from '../serve.ts';

/** The attributes of keys and customers (src/model/attributes.ts). The gateway makes this script when it serves the page. */
export const ATTRIBUTES: readonly AttributeWords[];
