import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { hrefOf } from '../place.ts';
import { say } from './format.tsx';
import { Icon, type IconName } from './icon.tsx';

interface PageProps {
  readonly title: string;
  readonly back?: { readonly title: string; readonly path: string };
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}

/**
 * The frame of a screen: its heading, which is the page's title too, and the elements beside it.
 * @param back the list that the screen shows one record of
 */
export function Page({ title, back, beside, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Tollgate`;
  }, [title]);
  return (
    <div class="page">
      {back && (
        <p class="back">
          <a href={hrefOf(back.path)}>
            <Icon of="back" />
            {back.title}
          </a>
        </p>
      )}
      <div class="page-head">
        <h1 tabindex={-1}>
          <bdi>{title}</bdi>
        </h1>
        {beside && <div class="beside">{beside}</div>}
      </div>
      {children}
    </div>
  );
}

interface SectionProps {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Section({ title, note, children }: SectionProps) {
  return (
    <section aria-label={title}>
      <div class="section-head">
        <h2>{title}</h2>
        {note && <p class="muted">{note}</p>}
      </div>
      {children}
    </section>
  );
}

interface FactsProps {
  readonly of: readonly (readonly [title: string, ComponentChildren])[];
  readonly kind?: string;
}

/** What is known of one thing, by its titles. A fact that is null or false is left out. */
export function Facts({ of, kind = '' }: FactsProps) {
  return (
    <dl class={`facts ${kind}`}>
      {of.map(
        ([title, fact]) =>
          fact !== null &&
          fact !== undefined &&
          fact !== false && (
            <>
              <dt>{title}</dt>
              <dd>{fact}</dd>
            </>
          ),
      )}
    </dl>
  );
}

/** Muted words after others, with a space between. */
export function Note({ children }: { children: ComponentChildren }) {
  return say` ${<span class="muted">{children}</span>}`;
}

/** Figures in a row: a title, its value, and whether that is bad. */
export type Figure = readonly [title: string, value: ComponentChildren, isBad?: boolean];

export function Totals({ of, children }: { of: readonly Figure[]; children?: ComponentChildren }) {
  return (
    <div class="row spread totals">
      <dl>
        {of.map(([title, value, isBad = false]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd class={isBad ? 'bad' : ''}>{value}</dd>
          </div>
        ))}
      </dl>
      {children}
    </div>
  );
}

interface TileProps {
  readonly title: string;
  readonly unit: ComponentChildren;
  readonly kind?: string | undefined;
  readonly below?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** One large figure, with its unit beside it. */
export function Tile({ title, unit, kind, below, children }: TileProps) {
  return (
    <div>
      <dt>{title}</dt>
      <dd class={kind}>
        {children} {unit && <span class="unit">{unit}</span>}
      </dd>
      {below && <dd>{below}</dd>}
    </div>
  );
}

/** How a state is to be taken: well and over, worth a look, wrong, or neither. What is well at present is `Good`. */
export type BadgeKind = 'done' | 'warn' | 'bad' | 'plain';

const SIGNS: Readonly<Record<BadgeKind, IconName>> = { done: 'check', warn: 'alert', bad: 'stop', plain: 'ring' };

/** A state in words, with a shape of its own, so that its colour is not the only sign. */
export function Badge({ kind, children }: { kind: BadgeKind; children: ComponentChildren }) {
  return (
    <span class={`badge ${kind === 'done' ? 'good' : kind}`}>
      <Icon of={SIGNS[kind]} />
      <span>{children}</span>
    </span>
  );
}
