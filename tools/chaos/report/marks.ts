import { legend as legendOf } from '../../load/report/charts.ts';
import { OUTCOMES, type Outcome } from '../answers.ts';

export { escapeHtml } from '../../../src/simulate/page.ts';

export const NAMES: Readonly<Record<Outcome, string>> = {
  admitted: '200',
  refused: '429 quota',
  banned: '429 ban',
  unauthenticated: '401',
  uncounted: '503 and others',
  lost: 'no answer',
};

export function legend(): string {
  return legendOf(OUTCOMES.map((outcome) => [outcome, NAMES[outcome]]));
}
