import htm from 'htm';
import { type ComponentChildren, h, type VNode } from 'preact';

type Template<T> = (strings: TemplateStringsArray, ...values: unknown[]) => T;

/** JSX as a tagged template: `html\`<p class="x">${text}</p>\``. Values are text or elements, never parsed as HTML. */
export const html = (htm as unknown as { bind(create: typeof h): Template<VNode> }).bind(h);

export type Children = ComponentChildren;
