import { z } from 'zod';
import { gatewaySchema } from './gateway-schema.ts';
import { plansSchema } from './plans.ts';

/** The text of each JSON Schema (2020-12) by the name of its file in config/, for editors that complete and check. */
export function jsonSchemas(): ReadonlyMap<string, string> {
  return new Map([
    ['gateway.schema.json', textOf(gatewaySchema)],
    ['plans.schema.json', textOf(plansSchema)],
  ]);
}

/** `input`: what an operator writes, not what it is read as. */
function textOf(schema: z.ZodType): string {
  return `${JSON.stringify(z.toJSONSchema(schema, { io: 'input' }), null, 2)}\n`;
}
