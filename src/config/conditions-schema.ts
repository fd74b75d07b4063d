import { z } from 'zod';
import { type FieldCondition, faultOfConditionField } from '../http1/field-conditions.ts';
import { token } from './setting-values.ts';

const RULE = 'must be a mapping such as `{ header: X-Version, is: [v2] }`, or a list of them';
const VALUES_RULE = 'must be a list of at least one value, such as [v2]';
const VALUE_RULE =
  'must be text of 1 to 256 characters of visible ASCII and blanks, without a comma and without blanks at its ends; put a number between quotes';

const condition = z
  .strictObject({
    header: token()
      .superRefine((name, context) => {
        const fault = faultOfConditionField(name);
        if (fault !== null) context.addIssue({ code: 'custom', message: fault });
      })
      .describe('Name of the header field, in any case.'),
    is: z
      .array(z.string(VALUE_RULE).regex(/^(?=.{1,256}$)[!-+\--~](?:[ -+\--~]*[!-+\--~])?$/, VALUE_RULE), VALUES_RULE)
      .min(1, VALUES_RULE)
      .max(100, 'must not have more than 100 values')
      .refine((values) => new Set(values).size === values.length, 'must not name a value twice')
      .meta({ uniqueItems: true })
      .optional()
      .describe('The values of which the field must have one, as clients send it. Without it, any value.'),
  })
  .transform(({ header, is }): FieldCondition => ({ header: header.toLowerCase(), is: is ?? null }));

/** `when`: conditions on the header fields of a request, all of which must hold. One may stand without a list. */
export function fieldConditions() {
  const several = z
    .array(condition)
    .min(1, RULE)
    .max(10, 'must not have more than 10 conditions')
    .refine((all) => new Set(all.map(({ header }) => header)).size === all.length, 'must not name a field twice');
  return z
    .union([condition, several], RULE)
    .transform((given): readonly FieldCondition[] => (Array.isArray(given) ? given : [given]));
}
