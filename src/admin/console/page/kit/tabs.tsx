import type { ComponentChildren } from 'preact';
import type { Known, Reading } from '../reading.ts';
import { useIsOld } from './seen.tsx';

export interface Tab {
  readonly name: string;
  readonly title: string;
  /** How much is behind it; 0 is shown muted. */
  readonly count: Reading<number>;
  readonly isBad?: boolean;
}

interface TabsProps {
  readonly id: string;
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly chosen: string;
  readonly choose: (name: string) => void;
  readonly children: ComponentChildren;
}

/**
 * Tabs above one panel. The arrow keys move between them, as in https://www.w3.org/WAI/ARIA/apg/patterns/tabs/.
 * @param id of the panel, unique in the page
 */
export function Tabs({ id, label, tabs, chosen, choose, children }: TabsProps) {
  const move = (event: KeyboardEvent) => {
    const at = tabs.findIndex(({ name }) => name === chosen);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const { name } = tabs[(next + tabs.length) % tabs.length]!;
    choose(name);
    document.getElementById(`${id}-${name}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ name, title, count, isBad }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-controls={id}
            aria-selected={name === chosen}
            tabindex={name === chosen ? 0 : -1}
            onClick={() => choose(name)}
          >
            {title} <Count of={count} isBad={isBad} />
          </button>
        ))}
      </div>
      <div role="tabpanel" id={id} aria-labelledby={`${id}-${chosen}`}>
        {children}
      </div>
    </>
  );
}

function Count({ of, isBad = false }: { of: Reading<number>; isBad?: boolean | undefined }) {
  return of.state === 'known' ? <KnownCount of={of} isBad={isBad} /> : <span class="count">–</span>;
}

function KnownCount({ of, isBad }: { of: Known<number>; isBad: boolean }) {
  const isOld = useIsOld(of);
  return <span class={`count ${isBad && of.value > 0 && !isOld ? 'bad' : ''}`}>{isOld ? '–' : of.value}</span>;
}
