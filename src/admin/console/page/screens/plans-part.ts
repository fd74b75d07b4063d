import { html } from '../html.ts';
import { Page } from '../kit/page.ts';
import { Empty } from '../kit/states.ts';
import { decoded } from '../router.ts';
import { Drafting, STEPS } from './plans-draft.ts';
import { History } from './plans-history.ts';

/** `/plans/STEP`, the way to change the plans, and `/plans/history`, those that were in force before. */
export function PlansPart({ rest }: { rest: string }) {
  const step = STEPS.find(({ path }) => path === rest);
  if (step !== undefined) return html`<${Drafting} step=${step} />`;
  const [part, ...version] = rest.split('/');
  if (part === 'history') return html`<${History} rest=${decoded(version.join('/'))} />`;
  return html`<${Page} title="Not found"><${Empty} title="There is no such step." /></${Page}>`;
}
