import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './processes.ts';

/** The pages that are written by hand, beside those that are generated (docs/reference). */
export const PAGES = ['README.md', ...globSync('docs/{guides,operate,internals}/*.md', { cwd: ROOT })].sort();

export function textOf(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** The blocks of code of a page without the indentation of the list that they stand in, each with its language. */
export function blocksOf(page: string): { language: string; text: string }[] {
  const found = textOf(page).matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm);
  return [...found].map(([, indent, language, text]) => ({
    language: language!,
    text: text!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}
