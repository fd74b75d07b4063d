import { useEffect } from 'preact/hooks';
import { type Children, html } from '../html.ts';

/** The frame of a screen: its heading, which is the page's title too, and the elements beside it. */
export function Page({ title, beside, children }: { title: string; beside?: Children; children: Children }) {
  useEffect(() => {
    document.title = `${title} · Tollgate`;
  }, [title]);
  return html`<div class="page">
    <div class="page-head"><h1 tabindex="-1"><bdi>${title}</bdi></h1>${beside && html`<div class="beside">${beside}</div>`}</div>
    ${children}
  </div>`;
}

export function Section({ title, note, children }: { title: string; note?: Children; children: Children }) {
  return html`<section>
    <div class="section-head"><h2>${title}</h2>${note && html`<p class="muted">${note}</p>`}</div>
    ${children}
  </section>`;
}

/** A state in words, with a shape of its own, so that its colour is not the only sign. */
export function Badge({ kind, children }: { kind: 'good' | 'warn' | 'bad' | 'plain'; children: Children }) {
  const sign = { good: '●', warn: '▲', bad: '■', plain: '○' }[kind];
  return html`<span class="badge ${kind}"><span aria-hidden="true">${sign}</span> ${children}</span>`;
}
