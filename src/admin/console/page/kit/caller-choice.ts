import { html } from '../html.ts';
import { navigate, usePlace } from '../router.ts';
import type { NamedCaller } from './caller-field.ts';
import { nameOf } from './callers.ts';
import { Empty, Loading } from './states.ts';

/** In place of what a filter by caller would show: whom it may mean, if that is not one caller. */
export function CallerChoice({ of: { several } }: { of: NamedCaller }) {
  const { path, query } = usePlace();
  const text = query.get('key') ?? '';
  if (several === null) return html`<${Loading} what="the callers" />`;
  if (several.length === 0) return html`<${Empty} title=${`Nothing matches “${text}”.`} />`;
  const choose = (id: string) => {
    const next = new URLSearchParams(query);
    next.set('key', id);
    navigate(`${path}?${next}`, 'replace');
  };
  return html`<${Empty} title=${`Several match “${text}”. Choose one:`}>
    <p class="actions">${several.map((one) => html`<button key=${one.id} type="button" onClick=${() => choose(one.id)}><bdi>${nameOf(one)}</bdi></button>`)}</p>
  </${Empty}>`;
}
