import { nearToSend } from '../../model/refusal.ts';
import { packedCallers } from '../live/refused-callers.ts';
import type { GatewayFacts, LocalAnswer } from '../live/shapes.ts';
import { packed } from '../live/traffic.ts';

const MAX_REPORT_BYTES = 8 * 1024;
/** Callers with refusals in a report. */
const MAX_REFUSED = 20;

/** The report of a gateway as text of at most 8 KiB. What is least needed is left out first. `readReport` reads it. */
export function reportText({ facts, seen }: LocalAnswer, clock: number): string {
  const near = (most: number) => seen.near.slice(0, most).map(nearToSend);
  const refused = (most: number) => packedCallers(seen.refused, most);
  const outage = facts.outage === null ? null : { ...facts.outage, reason: facts.outage.reason.slice(0, 200) };
  const whole = {
    clock,
    facts: { ...facts, outage },
    traffic: packed(seen.traffic),
    near: near(50),
    refused: refused(MAX_REFUSED),
  };
  const shorter = [
    () => whole,
    () => ({ ...whole, near: near(10) }),
    () => ({
      ...whole,
      near: [],
      refused: refused(10),
      facts: { ...whole.facts, upstreams: withoutUsable(facts.upstreams) },
    }),
    () => ({ ...whole, near: [], refused: refused(10), facts: { ...whole.facts, upstreams: [] } }),
  ];
  for (const make of shorter) {
    const text = JSON.stringify(make());
    if (Buffer.byteLength(text) <= MAX_REPORT_BYTES) return text;
  }
  return JSON.stringify({ clock, facts: { ...facts, outage, faults: [], upstreams: [] }, traffic: [0, []], near: [] });
}

function withoutUsable(upstreams: GatewayFacts['upstreams']): GatewayFacts['upstreams'] {
  return upstreams.map((one) => ({ ...one, targets: one.targets.filter(({ usable }) => !usable) }));
}
