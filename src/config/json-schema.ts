import { z } from 'zod';
import { gatewaySchema } from './gateway-schema.ts';
import { keysSchema } from './keys-file.ts';
import { plansSchema } from './plans-schema.ts';

/** The text of each JSON Schema (2020-12) by its file name in config/. Editors use them to complete and check settings. */
export function jsonSchemas(): ReadonlyMap<string, string> {
  return new Map([
    ['gateway.schema.json', textOf(gatewaySchema)],
    ['plans.schema.json', textOf(plansSchema)],
    ['keys.schema.json', textOf(keysSchema)],
  ]);
}

/** `input`: the schema describes what an operator writes, not the parsed value. */
function textOf(schema: z.ZodType): string {
  return `${JSON.stringify(z.toJSONSchema(schema, { io: 'input' }), null, 2)}\n`;
}
