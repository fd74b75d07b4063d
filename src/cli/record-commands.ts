import { isCustomerId } from '../model/record.ts';
import type { KeyReport } from '../operations/key-report.ts';
import type { TopUpReport, UndoneTopUpReport } from '../operations/usage-changes.ts';
import type { Print } from './operation-command.ts';
import type { Performed } from './operations-at.ts';

// What commands print of a change that keys and customers have alike.

type Done<Out> = { readonly output: Out } & Pick<Performed<never>, 'change'>;

type Suspendable = { readonly id: string; readonly suspended?: { readonly until: string | null } | undefined };

export function suspendedText({ output: { id, suspended }, change }: Done<Suspendable>, { moment }: Print): string {
  const end = suspended?.until == null ? 'until it is resumed' : `and works again ${moment(suspended.until)}`;
  return `${id} ${change?.outcome === 'unchanged' ? 'was already' : 'is'} suspended ${end}.\n`;
}

export function resumedText({ output: { id, customer }, change }: Done<Pick<KeyReport, 'id' | 'customer'>>): string {
  const done = `${id} ${change?.outcome === 'unchanged' ? 'was not suspended' : 'is resumed'}.`;
  if (customer?.state !== 'suspended') return `${done}\n`;
  return `${done} Its customer is suspended, and so its requests are refused: \`tollgate customers resume ${customer.id}\`.\n`;
}

export function topUpText({ output }: Done<TopUpReport>, { seconds }: Print): string {
  const { id, window, limit, until, topUp } = output;
  if (until === null) return `The top-up has ended or was undone: the ${window} limit of ${id} is ${limit}.\n`;
  const nouns = isCustomerId(id) ? 'customers' : 'keys';
  const undo = `\`tollgate ${nouns} undo-topup ${id} ${topUp}\` takes it back.`;
  return `The ${window} limit of ${id} is ${limit}; the top-up ends ${seconds(until)}.\n${undo}\n`;
}

export function undoneText({ output }: Done<UndoneTopUpReport>, { seconds }: Print): string {
  const { id, window, amount, limit, until } = output;
  const rest = until === null ? '' : `; what is still added to it ends ${seconds(until)}`;
  return `${amount} were taken back: the ${window} limit of ${id} is ${limit}${rest}.\n`;
}
